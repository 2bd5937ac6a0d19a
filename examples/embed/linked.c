/* linked PROMPT: a program that carries its model (linked_model.S) and opens no file. */
#include <stdio.h>

#include "product.h"

extern const unsigned char linked_model[], linked_model_end[];

static int32_t on_piece(void* ctx, const char* utf8, size_t length) {
  (void)ctx;
  return fwrite(utf8, 1, length, stdout) != length;
}

int main(int argc, char** argv) {
  qrt_error error = {.struct_size = sizeof error};
  qrt_artifact* artifact = NULL;
  product p = {0};
  qrt_status status = qrt_artifact_open_memory(linked_model, (size_t)(linked_model_end - linked_model),
                                               "the linked model", NULL, &artifact, &error);
  if (status == QRT_OK) status = product_load(&p, artifact, NULL, 0, &error);
  if (status == QRT_OK) status = product_answer(&p, argc > 1 ? argv[1] : "hello", 32, on_piece, NULL, &error);
  putchar('\n');
  if (status != QRT_OK) product_tell(&error);
  product_unload(&p);
  qrt_artifact_release(artifact);
  return status;
}
