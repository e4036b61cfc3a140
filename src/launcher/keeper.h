/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_KEEPER_H_
#define SRC_LAUNCHER_KEEPER_H_

/* The keeper's whole life; returns its exit code. `node_pid` names the leaves
 * it makes. */
int keeper_main(const char* node_pid);

#endif  // SRC_LAUNCHER_KEEPER_H_
