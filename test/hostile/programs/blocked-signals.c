/* SPDX-License-Identifier: Apache-2.0 */

/* Preloaded into a process: whichever of its threads starts a program by
 * posix_spawn has blocked all signals by then, and ignores most. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <spawn.h>

int posix_spawn(pid_t* restrict pid, const char* restrict path,
                const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* restrict attributes,
                char* const argv[restrict], char* const env[restrict]) {
  int (*real)(pid_t*, const char*, const posix_spawn_file_actions_t*,
              const posix_spawnattr_t*, char* const*, char* const*) =
      (__typeof__(real))dlsym(RTLD_NEXT, "posix_spawn");
  sigset_t all;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
  static const int ignored[] = {SIGHUP, SIGUSR2, SIGTERM, SIGALRM, SIGPIPE};
  for (unsigned i = 0; i < sizeof ignored / sizeof *ignored; i++)
    (void)signal(ignored[i], SIG_IGN);
  return real(pid, path, actions, attributes, argv, env);
}
