/* SPDX-License-Identifier: Apache-2.0 */

/* One static executable, three entries: the engine starts it as the keeper; the
 * keeper's child starts it again, inside the user namespace, as the launcher.
 * init and payload are forks of the launcher. As the probe it only looks around
 * and prints. */

#include <stdio.h>
#include <string.h>

#include "launcher/keeper.h"
#include "launcher/launcher.h"
#include "launcher/probe.h"

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "keeper") == 0) return keeper_main(argv[2]);
  if (argc == 3 && strcmp(argv[1], "launcher") == 0)
    return launcher_main(argv[2]);
  if (argc == 2 && strcmp(argv[1], "probe") == 0) return probe_main();
  (void)fprintf(stderr,
                "This program belongs to the npm package glovebox, which "
                "starts it by itself.\n");
  return 2;
}
