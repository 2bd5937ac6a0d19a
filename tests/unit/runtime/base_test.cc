#include <gtest/gtest.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/checked.h"
#include "runtime/base/cpu_features.h"
#include "runtime/base/file_map.h"
#include "runtime/base/hash.h"
#include "runtime/base/mapped_file.h"
#include "runtime/base/memory.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status.h"
#include "runtime/base/temporary_name.h"
#include "tests/unit/temp_folder.h"

namespace qrt {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(TemporaryName, ALongNameMakesRoomForItsSuffix) {
  EXPECT_EQ(NameBeside("model.qbin", ".tmp-1"), "model.qbin.tmp-1");
  EXPECT_EQ(NameBeside("/a.b/model.qbin", ".tmp-1"), "/a.b/model.qbin.tmp-1");
  const std::string folder = "/" + std::string(200, 'f') + "/", name(NAME_MAX, 'n');
  EXPECT_EQ(NameBeside(folder + "m", ".tmp-1"), folder + "m.tmp-1") << "the folder's name is none of its own";
  EXPECT_EQ(NameBeside(folder + name, ".tmp-1"), folder + name.substr(6) + ".tmp-1");
}

TEST(NearestName, DistanceCountsLettersAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("bench", "bench"), 0u);
  EXPECT_EQ(EditDistance("bnech", "bench"), 1u) << "a swap is one step";
  EXPECT_EQ(EditDistance("knd", "kind"), 1u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("ca", "abc"), 3u) << "what was swapped is not touched again";
}

TEST(NearestName, IsWhatWasMeantOrNothing) {
  const std::vector<std::string> names = {"-t", "--temp", "--top-k", "--top-p", "--repeat-penalty", "bench"};
  const struct {
    const char* word;
    const char* nearest;
  } cases[] = {{"bnech", "bench"},
               {"--tmep", "--temp"},
               {"--top-q", "--top-k"},
               {"--temperature", "--temp"},
               {"-temp", "--temp"},
               {"--rep", "--repeat-penalty"},
               {"--wrong", ""},
               {"-x", ""},
               {"", ""},
               {"---", ""},
               {"xy", ""}};
  for (const auto& c : cases) EXPECT_EQ(NearestName(c.word, names), c.nearest) << c.word;
  EXPECT_EQ(NearestName("bench", {}), "");
  EXPECT_EQ(NearestName(std::string(1000000, 'b'), names), "") << "the work would grow with the word";
}

// 28 layers of 16 planes, say, of which the first token writes the beginning.
TEST(Memory, SmallPagesAreResidentWhereTheyAreTouched) {
  constexpr uint64_t kParts = 40;
  Memory memory;
  ASSERT_TRUE(memory.Allocate(nullptr, kParts * kLargePage));
  PreferSmallPages(memory.data(), memory.size());
  for (uint64_t part = 0; part < kParts; ++part) memory.data()[part * kLargePage] = 1;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(memory.size() / page);
  ASSERT_EQ(mincore(memory.data(), memory.size(), resident.data()), 0);
  EXPECT_EQ(std::count_if(resident.begin(), resident.end(), [](unsigned char c) { return (c & 1) != 0; }),
            static_cast<std::ptrdiff_t>(kParts));
}

TEST(Checked, OverflowStaysInvalid) {
  EXPECT_EQ((Checked(2) + 3).value(), 5u);
  EXPECT_EQ((Checked(2) * 3).value(), 6u);
  EXPECT_TRUE((Checked(kMax) + 0).is(kMax));
  EXPECT_FALSE((Checked(kMax) + 1).ok());
  EXPECT_FALSE((Checked(kMax) + 1 - 1).ok()) << "an overflow was forgotten";
  EXPECT_FALSE((Checked(0) - 1).ok());
  EXPECT_FALSE((Checked(uint64_t{1} << 32) * (uint64_t{1} << 32)).ok());
  EXPECT_FALSE((Checked(kMax) * 2 * 0).ok());
  EXPECT_TRUE((Checked(uint64_t{1} << 32) * ((uint64_t{1} << 32) - 1)).ok());
  EXPECT_TRUE(Checked(4097).aligned(4096).is(8192));
  EXPECT_TRUE(Checked(4096).aligned(4096).is(4096));
  EXPECT_FALSE(Checked(kMax - 3).aligned(4096).ok()) << "the padding wrapped to zero";
  EXPECT_FALSE(Checked(5).aligned(3).ok());
  EXPECT_TRUE(Checked(0).aligned(32).is(0));
  EXPECT_TRUE(Checked(1).aligned(32).is(32));
  EXPECT_TRUE(Checked(32).aligned(32).is(32));
  EXPECT_TRUE(Checked(kMax - 31).aligned(32).is(kMax - 31));
  EXPECT_FALSE(Checked(kMax - 30).aligned(32).ok());
  EXPECT_FALSE((Checked(kMax) + 1).aligned(8).ok());
  EXPECT_TRUE(Checked(5).fits(5));
  EXPECT_FALSE(Checked(6).fits(5));
  EXPECT_FALSE((Checked(kMax) + 1).fits(kMax));
  EXPECT_FALSE((Checked(1) + (Checked(kMax) + 1)).ok()) << "an invalid right side was forgotten";
  EXPECT_EQ((Checked(kMax) + 2).value(), 0u) << "an invalid number had a value";
}

TEST(Checked, InRangeDoesNotWrap) {
  EXPECT_TRUE(InRange(0, 0, 0));
  EXPECT_TRUE(InRange(3, 5, 8));
  EXPECT_FALSE(InRange(3, 6, 8));
  EXPECT_FALSE(InRange(9, 0, 8));
  EXPECT_FALSE(InRange(kMax, 2, 8));
  EXPECT_FALSE(InRange(4, kMax - 2, 8));
}

TEST(StatusTest, CarriesItsPartsAndCopies) {
  Status status(Code::kIoError, 4002, "what", "where", "help");
  Status copy = status;
  EXPECT_EQ(copy.ToString(), "what [Q4002]; where; help");
  EXPECT_EQ(status.note(), "where");
  Status ok;
  copy = ok;
  EXPECT_TRUE(copy.ok());
  EXPECT_EQ(copy.number(), 0u);
  EXPECT_EQ(copy.message(), "");
}

TEST(StatusTest, ResultFromAnOkStatusIsAnError) {
  Result<int> result = Status();
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kInternal);
}

// Values published with xxHash: the empty input, seed 0.
TEST(HashTest, KnownValueAndPieces) {
  EXPECT_EQ(Hex(HashOf({})), "99aa06d3014798d86001c324468d497f");
  std::vector<uint8_t> data(100000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 31 >> 3);
  Hasher hasher;
  hasher.Update(std::span(data).first(1));
  hasher.Update(std::span(data).subspan(1, 70000));
  hasher.Update(std::span(data).subspan(70001));
  EXPECT_EQ(hasher.Finish(), HashOf(data)) << "pieces and whole give different hashes";
}

class FileMapTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.File(name); }
  const qrt::testing::TempFolder folder_;
};

TEST_F(FileMapTest, MapsBytes) {
  const std::string path = Path("data");
  std::ofstream(path) << "hello";
  Result<FileMap> map = FileMap::Open(path);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  FileMap moved = *std::move(map);
  EXPECT_EQ(std::string(moved.bytes().begin(), moved.bytes().end()), "hello");
}

TEST_F(FileMapTest, EmptyFileHasNoBytes) {
  const std::string path = Path("empty");
  std::ofstream{path};
  Result<FileMap> map = FileMap::Open(path);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  EXPECT_TRUE(map->bytes().empty());
}

TEST_F(FileMapTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(FileMap::Open(Path("absent")).status().number(), 4001u);
  EXPECT_EQ(FileMap::Open(folder_.path()).status().number(), 4003u);
  EXPECT_EQ(FileMap::Open("/dev/zero").status().number(), 4003u);
  const std::string fifo = Path("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(FileMap::Open(fifo).status().number(), 4003u)
      << "a FIFO must be refused without waiting for a writer";
}

TEST_F(FileMapTest, RefusesWhereThereAreNoDescriptors) {
  const std::string path = Path("data");
  std::ofstream(path) << "hello";
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status status = FileMap::Open(path).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.number(), 6004u) << status.ToString();
}

TEST_F(FileMapTest, IsFoundByItsAddress) {
  const std::string path = Path("a  name");
  std::ofstream(path) << std::string(10000, 'x');
  Result<FileMap> map = FileMap::Open(path);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  char found[4096], cut[8];
  uint64_t offset = 0;
  ASSERT_TRUE(FindMappedFile(map->bytes().data() + 9000, found, &offset));
  EXPECT_EQ(std::string(found), std::filesystem::canonical(path));
  EXPECT_EQ(offset, 9000u);
  EXPECT_TRUE(FindMappedFile(map->bytes().data(), cut, &offset));
  EXPECT_EQ(std::string(cut), std::string(found).substr(0, sizeof cut - 1));
  EXPECT_TRUE(FindMappedFile(map->bytes().data(), {}, &offset));
  const auto memory = std::make_unique<char>();
  EXPECT_FALSE(FindMappedFile(memory.get(), found, &offset)) << found;
  EXPECT_FALSE(FindMappedFile(nullptr, found, &offset)) << found;
  EXPECT_FALSE(FindMappedFile(&offset, found, &offset)) << found;
}

TEST_F(FileMapTest, TemporaryNamesAreRemovedFilesFirst) {
  const std::string folder = Path("folder"), file = folder + "/file", kept = Path("kept");
  const std::string beyond(PATH_MAX, 'x');
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  for (const std::string& path : {file, kept}) std::ofstream(path) << "x";
  { const TemporaryName ended(kept); }
  {
    const TemporaryName names[] = {TemporaryName(folder), TemporaryName(beyond), TemporaryName(file)};
    TemporaryName::RemoveAll();
    EXPECT_NE(access(folder.c_str(), F_OK), 0) << "the folder is still there";
    TemporaryName::RemoveAll();
  }
  EXPECT_EQ(access(kept.c_str(), F_OK), 0) << "a name that was given up was removed";
  // More than there is room for: the rest is left, and the room is there again afterwards.
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<TemporaryName>> many;
    for (size_t i = 0; i < TemporaryName::kNames; ++i) {
      many.push_back(std::make_unique<TemporaryName>(Path(std::to_string(i))));
      std::ofstream(Path(std::to_string(i))) << "x";
    }
    const TemporaryName one_more(kept);
    TemporaryName::RemoveAll();
    for (size_t i = 0; i < many.size(); ++i) {
      EXPECT_NE(access(Path(std::to_string(i)).c_str(), F_OK), 0) << i;
    }
    EXPECT_EQ(access(kept.c_str(), F_OK), 0);
  }
}

TEST(CpuFeaturesTest, MissingNamesWhatIsNotThere) {
  const std::string_view some[] = {"sse2", "avx"};
  const CpuFeatures cpu = CpuFeatures::FromNames(some);
  const std::vector<std::string> wanted = {"avx", "avx2", "from_the_future"};
  EXPECT_EQ(cpu.Missing(wanted), (std::vector<std::string>{"avx2", "from_the_future"}));
  EXPECT_FALSE(CpuFeatures::Detect().Has("from_the_future"));
  EXPECT_EQ(cpu.Without("avx").Missing(wanted), wanted);
  EXPECT_EQ(cpu.Without("from_the_future").Names(), cpu.Names());
}

// Tile registers are the kernel's to give, as often as it is asked, and only of a processor that has them.
TEST(CpuFeaturesTest, TileRegistersAreAskedFor) {
  const CpuFeatures cpu = CpuFeatures::Detect();
  if (!cpu.Has("xtiledata")) {
    EXPECT_FALSE(RequestTileRegisters());
    GTEST_SKIP() << "this machine has no tile registers to ask for";
  }
  EXPECT_TRUE(cpu.Has("amx_tile"));
#if defined(__x86_64__)
  for (int times = 0; times < 2; ++times) {
    const bool given = RequestTileRegisters();
    constexpr int kPermitted = 0x1022, kTileData = 18;  // ARCH_GET_XCOMP_PERM; older kernels give none
    uint64_t permitted = 0;
    syscall(SYS_arch_prctl, kPermitted, &permitted);
    EXPECT_EQ(given, (permitted >> kTileData & 1) != 0) << "what the kernel says that this process may use";
  }
#endif
}

// What the kernel writes of the same processor.
TEST(CpuFeaturesTest, ModelAgreesWithTheKernel) {
  std::ifstream info("/proc/cpuinfo");
  std::string line, vendor, family, design;
  while (std::getline(info, line) && !line.empty()) {
    const std::string value = line.substr(std::min(line.size(), line.find(": ") + 2));
    if (line.rfind("vendor_id", 0) == 0) vendor = value;
    if (line.rfind("cpu family", 0) == 0) family = value;
    if (line.rfind("model\t", 0) == 0) design = value;
  }
  if (vendor.empty() || family.empty() || design.empty())
    GTEST_SKIP() << "/proc/cpuinfo names no vendor, family and model here";
  const CpuModel model = DetectCpuModel();
  EXPECT_EQ(model.vendor, vendor);
  EXPECT_EQ(std::to_string(model.family), family);
  EXPECT_EQ(std::to_string(model.model), design);
}

// The kernel asks the same questions of the same processor, and says no more than that. It may say less: a
// guest's under a hypervisor that lets programs ask the processor itself has been seen without "abm" (LZCNT),
// which was there. What needs registers that the system must save is there for both or for neither.
TEST(CpuFeaturesTest, AgreesWithTheKernel) {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  std::set<std::string> flags;
  while (flags.empty() && std::getline(info, line)) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) flags.insert(word);
  }
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags here";
  const CpuFeatures cpu = CpuFeatures::Detect();
  for (std::string_view name : CpuFeatures::Known()) {
    const bool listed = flags.contains(std::string(name));
    const bool saved = name.starts_with("avx") || name.starts_with("amx") || name == "fma" || name == "f16c";
    if (listed || saved) {
      EXPECT_EQ(cpu.Has(name), listed) << "feature " << name;
    }
  }
}

}  // namespace
}  // namespace qrt
