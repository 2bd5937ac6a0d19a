/* A libvulkan.so.1 in front of the machine's, REAL_VULKAN: the submission number FAIL_SUBMISSION, counted
 * from 1, and all behind it give FAIL_RESULT (a VkResult) and do nothing, as those of a GPU that is gone. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*function)(void);
typedef function (*get_proc)(void* of, const char* name);
typedef int32_t (*submit)(void* queue, uint32_t count, const void* infos, uint64_t fence);

static get_proc real_device_proc;
static submit real_submit;
static long submissions;

static int32_t failing_submit(void* queue, uint32_t count, const void* infos, uint64_t fence) {
  if (++submissions >= atol(getenv("FAIL_SUBMISSION"))) return (int32_t)atol(getenv("FAIL_RESULT"));
  return real_submit(queue, count, infos, fence);
}

static function device_proc(void* device, const char* name) {
  const function found = real_device_proc(device, name);
  if (strcmp(name, "vkQueueSubmit") != 0) return found;
  real_submit = (submit)found;
  return (function)failing_submit;
}

function vkGetInstanceProcAddr(void* instance, const char* name) {
  static get_proc real;
  if (real == NULL) {
    void* library = dlopen(getenv("REAL_VULKAN"), RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return NULL;
    *(void**)&real = dlsym(library, "vkGetInstanceProcAddr");
  }
  const function found = real(instance, name);
  if (strcmp(name, "vkGetDeviceProcAddr") != 0) return found;
  real_device_proc = (get_proc)found;
  return (function)device_proc;
}
