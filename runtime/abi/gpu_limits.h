/* What every Vulkan device has, as the specification promises it (required limits): any code may take so
 * much. What takes more says so among the features of its code. Stand-alone C; shared by codegen/gpu, which
 * keeps to it, and by the runtime, which checks it. */
#ifndef QRT_ABI_GPU_LIMITS_H_
#define QRT_ABI_GPU_LIMITS_H_

#define QRT_VULKAN_THREADS 128u        /* of a workgroup */
#define QRT_VULKAN_SHARED_BYTES 16384u /* of workgroup memory */
#define QRT_VULKAN_PUSH_BYTES 128u     /* of push constants */

#endif /* QRT_ABI_GPU_LIMITS_H_ */
