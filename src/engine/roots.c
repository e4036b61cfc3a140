/* SPDX-License-Identifier: Apache-2.0 */

/* The roots that the launcher has. It keeps one, and its ready boxes, for all
 * sessions with equal records, and for a while after the last of them. */

#include <stdlib.h>
#include <string.h>

#include "common/fd.h"
#include "engine/internal.h"

/* That are kept although no session uses them. */
#define MAX_IDLE_ROOTS 4

struct gbx__root* gbx__root_find(const struct gbx_engine* engine, uint32_t id) {
  struct gbx__root* root = engine->client.roots;
  while (root != NULL && root->id != id)
    root = root->next;
  return root;
}

void gbx__root_unlink(struct gbx_engine* engine, const struct gbx__root* root) {
  struct gbx__root** at = &engine->client.roots;
  while (*at != root)
    at = &(*at)->next;
  *at = root->next;
}

void gbx__root_free(struct gbx__root* root) {
  free(root->blob);
  free(root);
}

struct gbx__root* gbx__root_find_for(const struct gbx_session* session) {
  struct gbx__client* client = &session->engine->client;
  struct gbx__root* root = client->roots;
  while (root != NULL &&
         (root->shares_network != session->shares_network ||
          root->blob_size != session->blob_size ||
          memcmp(root->blob, session->blob, session->blob_size) != 0))
    root = root->next;
  if (root == NULL) return NULL;
  gbx__root_unlink(session->engine, root);
  root->next = client->roots;
  client->roots = root;
  return root;
}

int gbx__root_send(struct gbx_session* session, struct gbx_err* err) {
  struct gbx_engine* engine = session->engine;
  struct gbx__root* root = calloc(1, sizeof *root);
  void* blob = malloc(session->blob_size);
  cleanup_fd int fd =
      fd_sealed_memory("root", session->blob, session->blob_size);
  if (root == NULL || blob == NULL || fd < 0) {
    free(root);
    free(blob);
    if (fd < 0) return gbx_fail(err, GBX_E_SETUP, -fd, "memfd_create", "root");
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "root");
  }
  memcpy(blob, session->blob, session->blob_size);
  root->blob = blob;
  root->blob_size = session->blob_size;
  root->shares_network = session->shares_network;
  root->id = gbx__engine_next_id(engine);
  struct gbx_msg_root message = {.shares_network = session->shares_network};
  GBX_MSG_INIT(&message, GBX_M_ROOT, root->id);
  int result = gbx__client_send(engine, &message.head, &fd, 1);
  if (result < 0) {
    free(root);
    free(blob);
    return gbx_fail(err, GBX_E_SETUP, -result, "sendmsg", "root");
  }
  root->next = engine->client.roots;
  engine->client.roots = root;
  session->root = root;
  return 0;
}

static bool is_in_use(const struct gbx_engine* engine,
                      const struct gbx__root* root) {
  const struct gbx_session* session = engine->sessions;
  while (session != NULL && session->root != root)
    session = session->next;
  return session != NULL;
}

void gbx__roots_trim(struct gbx_engine* engine) {
  int idle = 0;
  for (struct gbx__root *root = engine->client.roots, *next; root != NULL;
       root = next) {
    next = root->next;
    if (!root->ready || is_in_use(engine, root) || ++idle <= MAX_IDLE_ROOTS)
      continue;
    gbx__root_unlink(engine, root);
    struct gbx_msg_head head;
    gbx_msg_head_init(&head, GBX_M_ROOT_DROP, sizeof head, root->id);
    (void)gbx__client_send(engine, &head, NULL, 0); /* gone: so are its roots */
    gbx__root_free(root);
  }
}
