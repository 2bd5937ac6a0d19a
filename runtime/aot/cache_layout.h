// Where the AOT cache lies, and what lies where in it. One folder, which qcc and qrun share:
//
//   code/        compiled pieces (compiler/cache/code_store.h)
//   artifacts/   KEY.qbin with KEY.seal, whole artifacts; requests, and what else is known of files (records)
//   kernels/     what Vulkan drivers compiled (qrt_engine_options.cache_dir)
#ifndef QRT_AOT_CACHE_LAYOUT_H_
#define QRT_AOT_CACHE_LAYOUT_H_

#include <array>
#include <string>
#include <string_view>

namespace qrt::aot {

// $XDG_CACHE_HOME/qcc, or ~/.cache/qcc; empty: the environment names neither.
std::string UsualCacheFolder();

inline std::string CodeFolder(const std::string& cache) {
  return cache + "/code";
}
inline std::string ArtifactFolder(const std::string& cache) {
  return cache + "/artifacts";
}
inline std::string KernelFolder(const std::string& cache) {
  return cache + "/kernels";
}

// Names are 32 digits of a hash of all that the file depends on, and one of these.
inline constexpr char kCodeSuffix[] = ".code";
inline constexpr char kArtifactSuffix[] = ".qbin";
inline constexpr char kSealSuffix[] = ".seal";        // of the artifact beside it
inline constexpr char kRequestSuffix[] = ".request";  // request.h
inline constexpr char kSourceSuffix[] = ".source";    // the hash of a model's files
inline constexpr char kOutputSuffix[] = ".output";    // where `qcc compile` left an artifact
// What drivers compiled: written, checked and bounded by the runtime, which has these names in
// runtime/capi/kernel_cache.cc.
inline constexpr char kPipelinesSuffix[] = ".vkpipelines";
inline constexpr char kCubinSuffix[] = ".cubin";
inline constexpr std::array<std::string_view, 8> kCacheSuffixes = {
    kCodeSuffix,   kArtifactSuffix, kSealSuffix,      kRequestSuffix,
    kSourceSuffix, kOutputSuffix,   kPipelinesSuffix, kCubinSuffix};

inline constexpr char kCacheTemporary[] = ".tmp-";  // between name and number, while a file is written

// A piece of a text of which a name is a hash: with its size, so that a line end in one piece does not make
// two of it.
inline std::string NamePiece(std::string_view piece) {
  return std::to_string(piece.size()).append(":").append(piece).append("\n");
}

constexpr bool IsOfDriver(std::string_view suffix) {
  return suffix == kPipelinesSuffix || suffix == kCubinSuffix;
}

// Which of kCacheSuffixes a name in the cache has; empty: the file is not the cache's.
std::string_view CacheSuffix(std::string_view name);

}  // namespace qrt::aot

#endif  // QRT_AOT_CACHE_LAYOUT_H_
