/* SPDX-License-Identifier: Apache-2.0 */

/* The engine's side of keeper and launcher: starts them, speaks with them, and
 * notices their end. */

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/fd.h"
#include "common/sys.h"
#include "engine/internal.h"

/* Namespaces, maps and one exec: milliseconds. Something that takes this long
 * will not come any more. */
#define START_TIMEOUT_MS 10000
/* The same, where it may have a slow disk or many boxes to look after. */
#define SILENCE_MS 30000

void gbx__client_init(struct gbx__client* client) {
  memset(client, 0, sizeof *client);
  client->keeper_pidfd = client->keeper_fd = client->launcher_fd = -1;
  client->last = &client->first;
}

static void lose(struct gbx_engine* engine, const char* who) {
  struct gbx_err err = {0};
  (void)gbx_fail(&err,
                 engine->client.state == CLIENT_UP ? GBX_E_DIED : GBX_E_START,
                 EPIPE, who, "ended unexpectedly");
  gbx__client_stop(engine, &err);
}

/* ---- Silence ----------------------------------------------------------- */

/* Deadlines end runs that the launcher has started. What waits for one of its
 * answers - an open, the start of a kernel - would wait for ever for a launcher
 * that hangs, or that waits for a keeper that does. Nothing ticks while nothing
 * is owed. */
static void expect_answer(struct gbx_engine* engine);

static void on_silence(uv_timer_t* timer) {
  struct gbx_engine* engine = timer->data;
  struct gbx__client* client = &engine->client;
  struct gbx_err err = {0};
  bool is_down = client->state == CLIENT_DOWN;
  bool is_owed = is_down ? gbx__sessions_wait(engine, false)
                         : client->pinged || gbx__sessions_await(engine);
  if (engine->closing || !is_owed) return;
  if (client->heard) {
    expect_answer(engine);
  } else if (is_down) {
    (void)gbx_fail(&err, GBX_E_START, ETIMEDOUT, "keeper",
                   "the last one still cleans up after %d s",
                   SILENCE_MS / 1000);
    /* What it has not removed yet the next one will. */
    (void)sys_pidfd_kill(client->keeper_pidfd, SIGKILL);
    gbx__sessions_client_lost(engine, &err);
  } else {
    (void)gbx_fail(&err, GBX_E_DIED, ETIMEDOUT, "launcher",
                   "no answer for %d s", SILENCE_MS / 1000);
    /* Not asked to clean up, since it may be the one that hangs. */
    (void)sys_pidfd_kill(client->keeper_pidfd, SIGKILL);
    gbx__client_stop(engine, &err);
  }
}

static void expect_answer(struct gbx_engine* engine) {
  struct gbx__client* client = &engine->client;
  if (client->silence_timer == NULL ||
      uv_is_active((uv_handle_t*)client->silence_timer))
    return;
  client->heard = false;
  (void)uv_timer_start(client->silence_timer, on_silence, SILENCE_MS, 0);
}

/* ---- Sending ----------------------------------------------------------- */

static void on_launcher(uv_poll_t* poll, int status, int events);

static void poll_launcher(struct gbx__client* client) {
  int events = UV_READABLE | (client->first != NULL ? UV_WRITABLE : 0);
  (void)uv_poll_start(client->launcher_poll, events, on_launcher);
}

static int enqueue(struct gbx__client* client,
                   const struct gbx_msg_head* message, const int* fds,
                   int count) {
  struct gbx__outgoing* item = calloc(1, sizeof *item);
  if (item == NULL) return -ENOMEM;
  item->message = malloc(message->size);
  int result = item->message == NULL ? -ENOMEM : 0;
  for (int i = 0; i < count && result == 0; i++) {
    int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
      result = -errno;
    else
      item->fds.fd[item->fds.count++] = fd;
  }
  if (result < 0) {
    gbx_fds_close(&item->fds);
    free(item->message);
    free(item);
    return result;
  }
  memcpy(item->message, message, message->size);
  *client->last = item;
  client->last = &item->next;
  poll_launcher(client);
  return 0;
}

static void drop_first(struct gbx__client* client) {
  struct gbx__outgoing* item = client->first;
  client->first = item->next;
  if (client->first == NULL) client->last = &client->first;
  gbx_fds_close(&item->fds);
  free(item->message);
  free(item);
}

static bool is_question(const struct gbx_msg_head* message) {
  return message->type == GBX_M_ROOT || message->type == GBX_M_WORKSPACE ||
         message->type == GBX_M_RUN;
}

/* The launcher is gone, which shows as the end of its socket and fails whatever
 * waits for it: more than a failure to send would say. */
static bool is_end(int result) {
  return result == -EPIPE || result == -ECONNRESET || result == -EBADF;
}

int gbx__client_send(struct gbx_engine* engine,
                     const struct gbx_msg_head* message, const int* fds,
                     int count) {
  struct gbx__client* client = &engine->client;
  if (is_question(message)) expect_answer(engine);
  int result = -EAGAIN;
  if (client->first == NULL)
    result = gbx_msg_send(client->launcher_fd, message, fds, count);
  if (result == -EAGAIN) result = enqueue(client, message, fds, count);
  if (result == 0 || is_end(result)) return 0;
  if (count > 0) return result;
  /* No memory for a message that something waits for: its end fails that. */
  (void)shutdown(client->launcher_fd, SHUT_RDWR);
  return 0;
}

void gbx__client_ping(struct gbx_engine* engine) {
  struct gbx__client* client = &engine->client;
  if (client->state != CLIENT_UP || client->pinged) return;
  struct gbx_msg_head head;
  gbx_msg_head_init(&head, GBX_M_PING, sizeof head, 0);
  client->pinged = true;
  /* What it said before counts no more. */
  client->heard = false;
  if (client->silence_timer != NULL)
    (void)uv_timer_start(client->silence_timer, on_silence, SILENCE_MS, 0);
  (void)gbx__client_send(engine, &head, NULL, 0); /* none: cannot fail */
}

/* A message that was kept could not be sent after all: one with descriptors, of
 * which there are too many on their way between this user's processes. */
static void refuse(struct gbx_engine* engine, const struct gbx_msg_head* head,
                   int result) {
  struct gbx_err err = {0};
  (void)gbx_fail(&err, GBX_E_SETUP, -result, "sendmsg", "to the launcher");
  struct gbx_run* run = gbx__run_find(engine, head->id);
  if (head->type != GBX_M_RUN)
    gbx__sessions_done(engine, head->id, &err);
  else if (run != NULL)
    gbx__run_fail(run, &err);
}

static void send_kept(struct gbx_engine* engine) {
  struct gbx__client* client = &engine->client;
  while (client->first != NULL) {
    struct gbx__outgoing* item = client->first;
    struct gbx_msg_head head = *item->message;
    int result = gbx_msg_send(client->launcher_fd, item->message, item->fds.fd,
                              item->fds.count);
    if (result == -EAGAIN) break;
    drop_first(client);
    if (result < 0 && !is_end(result)) refuse(engine, &head, result);
  }
  poll_launcher(client);
}

bool gbx__client_temp(struct gbx_engine* engine, enum gbx_msg_type type,
                      const char* path) {
  struct gbx_msg_path message;
  size_t size = offsetof(struct gbx_msg_path, path) + strlen(path) + 1;
  if (size > sizeof message) return false;
  /* No longer than it must be, so that the socket holds some hundreds: what it
   * has no room for would stay if Node were killed. */
  gbx_msg_head_init(&message.head, type, size, 0);
  memcpy(message.path, path, strlen(path) + 1);
  return gbx_msg_send(engine->client.keeper_fd, &message.head, NULL, 0) == 0;
}

/* ---- Receiving --------------------------------------------------------- */

static void check_up(struct gbx_engine* engine) {
  struct gbx__client* client = &engine->client;
  if (client->state != CLIENT_STARTING || !client->keeper_up ||
      !client->launcher_up)
    return;
  client->state = CLIENT_UP;
  client->was_up = true;
  gbx__timer_close(&client->start_timer);
  gbx__sessions_client_up(engine);
}

static int send_config(struct gbx_engine* engine, struct gbx_err* err) {
  cleanup_fd int payload_fd = fd_sealed_memory(
      "filter", engine->payload_filter.data, engine->payload_filter.size);
  cleanup_fd int init_fd = fd_sealed_memory("filter", engine->init_filter.data,
                                            engine->init_filter.size);
  cleanup_fd int zygote_fd = fd_sealed_memory(
      "filter", engine->zygote_filter.data, engine->zygote_filter.size);
  const int fds[] = {payload_fd, init_fd, zygote_fd, engine->moments_fd};
  for (int i = 0; i < 3; i++)
    if (fds[i] < 0)
      return gbx_fail(err, GBX_E_START, -fds[i], "memfd_create", "filter");
  struct gbx_msg_config config = {.notify = engine->notify,
                                  .leaves = engine->client.controllers != 0};
  GBX_MSG_INIT(&config, GBX_M_CONFIG, 0);
  int count = engine->moments_fd < 0 ? 3 : 4;
  int result = gbx__client_send(engine, &config.head, fds, count);
  if (result < 0)
    return gbx_fail(err, GBX_E_START, -result, "sendmsg", "filter");
  return 0;
}

static void on_keeper(uv_poll_t* poll, int status, int events) {
  (void)status;
  (void)events;
  struct gbx_engine* engine = poll->data;
  struct gbx__client* client = &engine->client;
  union gbx_msg message;
  struct gbx_fds fds;
  int result = gbx_msg_recv(client->keeper_fd, &message, &fds);
  if (result == -EAGAIN) return;
  gbx_fds_close(&fds);
  if (result <= 0) {
    lose(engine, "keeper");
    return;
  }
  if (message.head.type == GBX_M_FAILED) {
    gbx_err_sanitize(&message.result.err);
    gbx__client_stop(engine, &message.result.err);
  } else if (message.head.type == GBX_M_KEEPER_UP) {
    client->keeper_up = true;
    client->controllers = message.keeper_up.controllers;
    struct gbx_err err = {0};
    if (send_config(engine, &err) < 0)
      gbx__client_stop(engine, &err);
    else
      check_up(engine);
  }
}

static void handle(struct gbx_engine* engine, union gbx_msg* message,
                   struct gbx_fds* fds) {
  struct gbx_run* run;
  switch (message->head.type) {
    case GBX_M_FAILED:
      gbx_err_sanitize(&message->result.err);
      gbx__client_stop(engine, &message->result.err);
      break;
    case GBX_M_LAUNCHER_UP:
      engine->client.launcher_up = true;
      engine->client.scopes = message->launcher_up.scopes != 0;
      check_up(engine);
      break;
    case GBX_M_DONE:
      gbx_err_sanitize(&message->result.err);
      gbx__sessions_done(engine, message->head.id, &message->result.err);
      break;
    case GBX_M_GIVEN_UP:
      gbx__sessions_given_up(engine, message->head.id,
                             message->given_up.runtimes);
      break;
    case GBX_M_STARTED:
      run = gbx__run_find(engine, message->head.id);
      if (run != NULL) gbx__run_started(run, &message->started, fds);
      break;
    case GBX_M_BLOCKED:
      run = gbx__run_find(engine, message->head.id);
      if (run != NULL) gbx__run_blocked(run, &message->blocked);
      break;
    case GBX_M_END:
      run = gbx__run_find(engine, message->head.id);
      if (run != NULL) gbx__run_end(run, &message->end);
      break;
    default:
      break;
  }
}

static void on_launcher(uv_poll_t* poll, int status, int events) {
  struct gbx_engine* engine = poll->data;
  struct gbx__client* client = &engine->client;
  if (status == 0 && (events & UV_WRITABLE) != 0) send_kept(engine);
  /* handle() may stop the client: then its socket is -1. */
  while (client->launcher_poll == poll) {
    union gbx_msg message;
    struct gbx_fds fds;
    int result = gbx_msg_recv(client->launcher_fd, &message, &fds);
    if (result == -EAGAIN) return;
    if (result <= 0) {
      lose(engine, "launcher");
      return;
    }
    client->heard = true;
    client->pinged = false;
    handle(engine, &message, &fds);
    gbx_fds_close(&fds);
  }
}

/* Reaps the keeper. Node waits only for children of its own. */
static void on_keeper_end(uv_poll_t* poll, int status, int events) {
  (void)status;
  (void)events;
  struct gbx_engine* engine = poll->data;
  struct gbx__client* client = &engine->client;
  (void)waitid(P_PIDFD, (id_t)client->keeper_pidfd, NULL, WEXITED | WNOHANG);
  gbx__poll_close(&client->keeper_end);
  fd_close(&client->keeper_pidfd);
  client->keeper_pid = 0;
  if (client->state != CLIENT_DOWN) lose(engine, "keeper");
  if (engine->closing) return;
  /* Who waits starts it anew. After a pair that had come up every session
   * does: only a keeper can remove its workspace should Node be killed. One
   * that never came up would fail again, and again. */
  bool again = client->was_up;
  client->was_up = false;
  if (gbx__sessions_wait(engine, again)) gbx__client_start(engine);
}

/* ---- Starting ---------------------------------------------------------- */

static void on_start_timeout(uv_timer_t* timer) {
  struct gbx_err err = {0};
  (void)gbx_fail(&err, GBX_E_START, ETIMEDOUT, "launcher",
                 "no answer after %d s", START_TIMEOUT_MS / 1000);
  gbx__client_stop(timer->data, &err);
}

/* Descriptors 0 to 2 are its own /dev/null, 3 and 4 its two sockets. */
static int spawn_keeper(struct gbx_engine* engine, int keeper_end,
                        int launcher_end, struct gbx_err* err) {
  char node_pid[16];
  (void)snprintf(node_pid, sizeof node_pid, "%d", getpid());
  char* argv[] = {"glovebox-keeper", "keeper", node_pid, NULL};
  char* envp[] = {NULL}; /* nothing of the host's environment goes along */
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all, none;
  (void)sigfillset(&all);
  (void)sigemptyset(&none);
  if (posix_spawn_file_actions_init(&actions) != 0)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "posix_spawn", "actions");
  if (posix_spawnattr_init(&attributes) != 0) {
    (void)posix_spawn_file_actions_destroy(&actions);
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "posix_spawn", "attributes");
  }
  int result = 0;
  for (int fd = 0; fd <= 2 && result == 0; fd++)
    result = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null",
                                              fd == 0 ? O_RDONLY : O_WRONLY, 0);
  if (result == 0)
    result =
        posix_spawn_file_actions_adddup2(&actions, keeper_end, GBX_FD_ENGINE);
  if (result == 0)
    result =
        posix_spawn_file_actions_adddup2(&actions, launcher_end, GBX_FD_PEER);
  /* Node ignores SIGPIPE and blocks what it likes; a session of its own keeps
   * a terminal's Ctrl-C from ending the keeper before Node. */
  if (result == 0)
    result = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF |
                                                       POSIX_SPAWN_SETSIGMASK |
                                                       POSIX_SPAWN_SETSID);
  if (result == 0) result = posix_spawnattr_setsigdefault(&attributes, &all);
  if (result == 0) result = posix_spawnattr_setsigmask(&attributes, &none);
  pid_t pid = 0;
  if (result == 0)
    result = posix_spawn(&pid, engine->launcher_path, &actions, &attributes,
                         argv, envp);
  (void)posix_spawnattr_destroy(&attributes);
  (void)posix_spawn_file_actions_destroy(&actions);
  if (result != 0)
    return gbx_fail(err, GBX_E_START, result, "posix_spawn", "%s",
                    engine->launcher_path);
  engine->client.keeper_pid = pid;
  return 0;
}

/* A pair whose second end lies above the numbers that the child uses, so that
 * one dup2 cannot overwrite the other's source. */
static int socket_pair(int ret_pair[2], struct gbx_err* err) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    return gbx_fail(err, GBX_E_START, errno, "socketpair", "keeper");
  ret_pair[0] = pair[0];
  ret_pair[1] = fcntl(pair[1], F_DUPFD_CLOEXEC, 10);
  int error = errno;
  (void)close(pair[1]);
  if (ret_pair[1] < 0) {
    (void)close(pair[0]);
    return gbx_fail(err, GBX_E_START, error, "fcntl", "F_DUPFD_CLOEXEC");
  }
  return 0;
}

/* Its end is awaited before another keeper starts, so one whose end cannot be
 * seen must not live on. It has nothing to clean up yet. */
static int watch_keeper(struct gbx_engine* engine, struct gbx_err* err) {
  struct gbx__client* client = &engine->client;
  const char* op = "pidfd_open";
  client->keeper_pidfd = sys_pidfd_open(client->keeper_pid);
  int error = client->keeper_pidfd < 0 ? errno : ENOMEM;
  if (client->keeper_pidfd >= 0 &&
      sys_pidfd_kill(client->keeper_pidfd, 0) < 0 && errno != ESRCH) {
    /* No box could be ended. */
    op = "pidfd_send_signal";
    error = errno;
  } else if (client->keeper_pidfd >= 0) {
    op = "uv_poll_init";
    client->keeper_end = gbx__poll_new(engine, client->keeper_pidfd, engine);
  }
  if (client->keeper_end != NULL) {
    (void)uv_poll_start(client->keeper_end, UV_READABLE, on_keeper_end);
    return 0;
  }
  fd_close(&client->keeper_pidfd);
  (void)kill(client->keeper_pid, SIGKILL); /* our child, so it is its pid */
  (void)RETRY(waitpid(client->keeper_pid, NULL, 0));
  client->keeper_pid = 0;
  return gbx_fail(err, GBX_E_START, error, op, "keeper");
}

static int start(struct gbx_engine* engine, struct gbx_err* err) {
  struct gbx__client* client = &engine->client;
  int result = gbx__engine_make_filters(engine, err);
  if (result < 0) return result;
  int keeper[2], launcher[2];
  result = socket_pair(keeper, err);
  if (result < 0) return result;
  client->keeper_fd = keeper[0];
  cleanup_fd int keeper_end = keeper[1];
  result = socket_pair(launcher, err);
  if (result < 0) return result;
  client->launcher_fd = launcher[0];
  cleanup_fd int launcher_end = launcher[1];
  result = spawn_keeper(engine, keeper_end, launcher_end, err);
  if (result < 0) return result;
  result = watch_keeper(engine, err);
  if (result < 0) return result;
  client->keeper_poll = gbx__poll_new(engine, client->keeper_fd, engine);
  client->launcher_poll = gbx__poll_new(engine, client->launcher_fd, engine);
  client->start_timer = gbx__timer_new(engine, engine);
  if (client->keeper_poll == NULL || client->launcher_poll == NULL ||
      client->start_timer == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "uv_poll_init", "keeper");
  (void)uv_poll_start(client->keeper_poll, UV_READABLE, on_keeper);
  poll_launcher(client);
  (void)uv_timer_start(client->start_timer, on_start_timeout, START_TIMEOUT_MS,
                       0);
  return 0;
}

void gbx__client_start(struct gbx_engine* engine) {
  struct gbx__client* client = &engine->client;
  if (client->state != CLIENT_DOWN) return;
  if (client->silence_timer == NULL) {
    client->silence_timer = gbx__timer_new(engine, engine);
    /* An engine that ends does not wait for it. */
    if (client->silence_timer != NULL)
      uv_unref((uv_handle_t*)client->silence_timer);
  }
  if (client->keeper_pid != 0) {
    /* An old keeper is still cleaning up: its end starts the new one. */
    expect_answer(engine);
    return;
  }
  client->state = CLIENT_STARTING;
  struct gbx_err err = {0};
  if (start(engine, &err) < 0)
    gbx__client_stop(engine, &err);
  else
    gbx__sessions_client_starts(engine);
}

void gbx__client_stop(struct gbx_engine* engine, const struct gbx_err* err) {
  struct gbx__client* client = &engine->client;
  if (client->state == CLIENT_DOWN) return;
  client->state = CLIENT_DOWN;
  client->keeper_up = client->launcher_up = client->pinged = false;
  gbx__timer_close(&client->start_timer);
  gbx__poll_close(&client->keeper_poll);
  gbx__poll_close(&client->launcher_poll);
  if (!engine->closing) {
    /* The sessions live on, and their workspaces with them. */
    struct gbx_msg_head forget;
    gbx_msg_head_init(&forget, GBX_M_TEMP_FORGET, sizeof forget, 0);
    /* It is dead, or its socket is full: then it must not live to remove the
     * workspaces of sessions that do. */
    if (gbx_msg_send(client->keeper_fd, &forget, NULL, 0) < 0 &&
        client->keeper_pidfd >= 0)
      (void)sys_pidfd_kill(client->keeper_pidfd, SIGKILL);
  }
  /* The end of these is what makes the keeper clean up. */
  fd_close(&client->keeper_fd);
  fd_close(&client->launcher_fd);
  while (client->first != NULL)
    drop_first(client);
  while (client->roots != NULL) {
    struct gbx__root* root = client->roots;
    client->roots = root->next;
    gbx__root_free(root);
  }
  gbx__sessions_client_lost(engine, err);
}
