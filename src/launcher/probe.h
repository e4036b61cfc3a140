/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_PROBE_H_
#define SRC_LAUNCHER_PROBE_H_

/* Prints what this executable, and so keeper and launcher, find around them:
 * lines of "name value". Makes nothing and changes nothing. Returns an exit
 * code. */
int probe_main(void);

#endif  // SRC_LAUNCHER_PROBE_H_
