#include "tests/unit/codegen_cpu/instruction_emulator.h"

#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "runtime/base/cpu_features.h"

namespace qcc::cpu {

bool TileRegisters::Configure(const uint8_t* shapes) {
  const auto zero = [](const uint8_t* begin, size_t n) {
    return std::all_of(begin, begin + n, [](uint8_t b) { return b == 0; });
  };
  Release();
  if (shapes[0] == 0) return true;
  // No start row; what is reserved, and tiles that there are not, are zero.
  if (shapes[0] != 1 || !zero(shapes + 1, 15) || !zero(shapes + 32, 16) || !zero(shapes + 56, 8))
    return false;
  for (size_t i = 0; i < kTiles; ++i) {
    uint16_t row_bytes;
    std::memcpy(&row_bytes, shapes + 16 + 2 * i, 2);
    const uint8_t rows = shapes[48 + i];
    if (rows > kRows || row_bytes > kRowBytes || (rows == 0) != (row_bytes == 0)) return false;
    tiles_[i].rows = rows;
    tiles_[i].row_bytes = row_bytes;
  }
  return true;
}

bool TileRegisters::Clear(size_t tile) {
  if (!Usable(tile)) return false;
  tiles_[tile].bytes = {};
  return true;
}

bool TileRegisters::Load(size_t tile, const uint8_t* from, int64_t stride) {
  if (!Clear(tile)) return false;
  Tile& t = tiles_[tile];
  for (size_t r = 0; r < t.rows; ++r)
    std::memcpy(t.bytes[r].data(), from + static_cast<int64_t>(r) * stride, t.row_bytes);
  return true;
}

bool TileRegisters::Store(size_t tile, uint8_t* to, int64_t stride) const {
  if (!Usable(tile)) return false;
  const Tile& t = tiles_[tile];
  for (size_t r = 0; r < t.rows; ++r)
    std::memcpy(to + static_cast<int64_t>(r) * stride, t.bytes[r].data(), t.row_bytes);
  return true;
}

bool TileRegisters::AddProducts(size_t sums, size_t a, size_t b, bool a_signed, bool b_signed) {
  if (!Usable(sums) || !Usable(a) || !Usable(b) || sums == a || sums == b || a == b) return false;
  Tile& to = tiles_[sums];
  const Tile &rows = tiles_[a], &columns = tiles_[b];
  if (to.row_bytes % 4 != 0 || to.row_bytes != columns.row_bytes || to.rows != rows.rows ||
      rows.row_bytes != 4 * columns.rows) {
    return false;
  }
  const auto value = [](uint8_t byte, bool is_signed) {
    return is_signed ? static_cast<int32_t>(static_cast<int8_t>(byte)) : static_cast<int32_t>(byte);
  };
  for (size_t i = 0; i < to.rows; ++i) {
    for (size_t j = 0; j < to.row_bytes / 4; ++j) {
      uint32_t sum;  // wraps around
      std::memcpy(&sum, &to.bytes[i][4 * j], 4);
      for (size_t k = 0; k < rows.row_bytes; ++k) {
        sum += static_cast<uint32_t>(value(rows.bytes[i][k], a_signed) *
                                     value(columns.bytes[k / 4][4 * j + k % 4], b_signed));
      }
      std::memcpy(&to.bytes[i][4 * j], &sum, 4);
    }
  }
  return true;
}

namespace {

thread_local TileRegisters g_tiles;
std::atomic<uint64_t> g_emulated{0};

// An instruction's memory operand: base and distance, and the index, which of a tile is how far apart its
// rows are.
struct Memory {
  uint8_t* at;
  int64_t stride;
};

// sums[i] += the products of the bytes a[4 i + n], unsigned, and b[4 i + n], n < 4: vpdpbusd, of `lanes`
// sums.
void AddProductsOfBytes(int32_t* sums, const uint8_t* a, const int8_t* b, size_t lanes) {
  for (size_t i = 0; i < lanes; ++i) {
    uint32_t sum = static_cast<uint32_t>(sums[i]);  // wraps around
    for (size_t n = 4 * i; n < 4 * i + 4; ++n) sum += static_cast<uint32_t>(a[n] * b[n]);
    sums[i] = static_cast<int32_t>(sum);
  }
}

// The same of two words each: vpdpwssd.
void AddProductsOfWords(int32_t* sums, const int16_t* a, const int16_t* b, size_t lanes) {
  for (size_t i = 0; i < lanes; ++i) {
    uint32_t sum = static_cast<uint32_t>(sums[i]);
    for (size_t n = 2 * i; n < 2 * i + 2; ++n) sum += static_cast<uint32_t>(a[n] * b[n]);
    sums[i] = static_cast<int32_t>(sum);
  }
}

// Asked for once: a virtual machine's host answers.
uint32_t WhereHighHalvesAre() {
  uint32_t size = 0, offset = 0, flags = 0, reserved = 0;
  __get_cpuid_count(0xd, 2, &size, &offset, &flags, &reserved);
  return offset;
}
const uint32_t g_high_halves = WhereHighHalvesAre();

// The vector registers of interrupted code, where the kernel keeps them: as XSAVE writes them in its standard
// form (Intel SDM vol. 1, 13.4), low halves at byte 160, high ones where CPUID leaf 0xd says.
class VectorRegisters {
 public:
  static constexpr size_t kHalf = 16, kBytes = 2 * kHalf;

  explicit VectorRegisters(void* area) : area_(static_cast<uint8_t*>(area)), high_(area_ + g_high_halves) {
    // Parts that are as they were at first are not written, only said to be.
    uint64_t written;
    std::memcpy(&written, area_ + kHeader, sizeof written);
    if ((written & kLowPart) == 0) std::memset(area_ + kLow, 0, 16 * kHalf);
    if ((written & kHighPart) == 0) std::memset(high_, 0, 16 * kHalf);
    written |= kLowPart | kHighPart;
    std::memcpy(area_ + kHeader, &written, sizeof written);
  }
  void Read(size_t number, uint8_t* to) const {
    std::memcpy(to, area_ + kLow + number * kHalf, kHalf);
    std::memcpy(to + kHalf, high_ + number * kHalf, kHalf);
  }
  void Write(size_t number, const uint8_t* from) {
    std::memcpy(area_ + kLow + number * kHalf, from, kHalf);
    std::memcpy(high_ + number * kHalf, from + kHalf, kHalf);
  }

 private:
  static constexpr size_t kLow = 160, kHeader = 512;
  static constexpr uint64_t kLowPart = 2, kHighPart = 4;
  uint8_t *area_, *high_;
};

// An instruction that begins with the three-byte prefix of AMX and AVX-VNNI and one of their opcodes.
class Instruction {
 public:
  Instruction(const uint8_t* code, const mcontext_t& context)
      : code_(code), registers_(context.gregs), vectors_(context.fpregs) {}

  // Bytes of the instruction, which has then been computed; 0: it is another one, or the processor refuses.
  size_t Execute() {
    // VEX of opcode map 2, W 0.
    if (code_[0] != 0xc4 || (code_[1] & 0x1f) != 2 || (code_[2] & 0x80) != 0) return 0;
    length_ = 5;
    return (code_[2] & 4) != 0 ? ExecuteVector() : ExecuteTile();
  }

 private:
  size_t ExecuteTile() {
    const uint8_t prefix = code_[2] & 3, opcode = code_[3], modrm = code_[4];
    const size_t reg = modrm >> 3 & 7, other = modrm & 7;
    const bool memory = modrm >> 6 != 3;
    bool done = false;
    if (opcode == 0x49) {
      done = Configuration(prefix, modrm);
    } else if (opcode == 0x4b && memory && other == 4) {  // with an index register: the stride
      const Memory m = Operand();
      if (prefix == 3 || prefix == 1) done = g_tiles.Load(reg, m.at, m.stride);
      if (prefix == 2) done = g_tiles.Store(reg, m.at, m.stride);
    } else if (opcode == 0x5e && !memory) {
      const size_t third = ~code_[2] >> 3 & 7;
      done = g_tiles.AddProducts(reg, other, third, prefix >= 2, (prefix & 1) != 0);
    }
    return done ? length_ : 0;
  }

  // vpdpbusd and vpdpwssd of 256 bits.
  size_t ExecuteVector() {
    const uint8_t opcode = code_[3], modrm = code_[4];
    if ((code_[2] & 3) != 1 || (opcode != 0x50 && opcode != 0x52)) return 0;
    constexpr size_t kLanes = VectorRegisters::kBytes / 4;
    const size_t to = (modrm >> 3 & 7) + ((code_[1] & 0x80) != 0 ? 0 : 8), left = ~code_[2] >> 3 & 15;
    alignas(32) uint8_t sums[VectorRegisters::kBytes], a[VectorRegisters::kBytes], b[VectorRegisters::kBytes];
    VectorRegisters vectors(vectors_);
    vectors.Read(to, sums);
    vectors.Read(left, a);
    if (modrm >> 6 == 3) {
      vectors.Read((modrm & 7) + ((code_[1] & 0x20) != 0 ? 0 : 8), b);
    } else {
      const Memory m = Operand();
      std::memcpy(b, m.at + m.stride, sizeof b);
    }
    const auto sum = reinterpret_cast<int32_t*>(sums);
    if (opcode == 0x50) {
      AddProductsOfBytes(sum, a, reinterpret_cast<const int8_t*>(b), kLanes);
    } else {
      AddProductsOfWords(sum, reinterpret_cast<const int16_t*>(a), reinterpret_cast<const int16_t*>(b),
                         kLanes);
    }
    vectors.Write(to, sums);
    return length_;
  }

  bool Configuration(uint8_t prefix, uint8_t modrm) {
    if (modrm >> 6 != 3) return prefix == 0 && (modrm >> 3 & 7) == 0 && g_tiles.Configure(Operand().at);
    if (prefix == 3 && (modrm & 7) == 0) return g_tiles.Clear(modrm >> 3 & 7);
    if (prefix != 0 || modrm != 0xc0) return false;
    g_tiles.Release();
    return true;
  }

  int64_t Register(size_t number) const {
    static constexpr int kPlaces[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return registers_[kPlaces[number]];
  }

  // Reads what follows the opcode; the length is then known.
  Memory Operand() {
    const uint8_t mod = code_[4] >> 6, rm = code_[4] & 7;
    const size_t high_base = (code_[1] & 0x20) != 0 ? 0 : 8, high_index = (code_[1] & 0x40) != 0 ? 0 : 8;
    int64_t address = 0, stride = 0;
    size_t base = rm;
    if (rm == 4) {
      const uint8_t sib = code_[length_++];
      base = sib & 7;
      const size_t index = (sib >> 3 & 7) + high_index;
      if (index != 4) stride = Register(index) << (sib >> 6);
    }
    const bool no_base = mod == 0 && base == 5;
    if (!no_base) address = Register(base + high_base);
    if (mod == 1) address += static_cast<int8_t>(code_[length_++]);
    if (mod == 2 || no_base) {
      int32_t distance;
      std::memcpy(&distance, code_ + length_, 4);
      length_ += 4;
      address += distance;
    }
    if (no_base && rm == 5) address += static_cast<int64_t>(reinterpret_cast<uintptr_t>(code_ + length_));
    return {reinterpret_cast<uint8_t*>(address), stride};
  }

  const uint8_t* code_;
  const greg_t* registers_;
  void* vectors_;
  size_t length_ = 0;
};

void OnIllegalInstruction(int, siginfo_t*, void* context) {
  mcontext_t& interrupted = static_cast<ucontext_t*>(context)->uc_mcontext;
  greg_t* registers = interrupted.gregs;
  uint64_t executed = 0;
  // Those that follow at once as well: a signal takes much longer than what it is for.
  for (;; ++executed) {
    const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
    const size_t bytes = Instruction(code, interrupted).Execute();
    if (bytes == 0) break;
    registers[REG_RIP] += static_cast<greg_t>(bytes);
  }
  g_emulated.fetch_add(executed, std::memory_order_relaxed);
  if (executed == 0) signal(SIGILL, SIG_DFL);  // none of ours: it ends the process when it is tried again
}

void Emulate() {
  struct sigaction action = {};
  action.sa_sigaction = OnIllegalInstruction;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGILL, &action, nullptr) != 0) std::abort();
}

}  // namespace

std::string WhyNotHere(Isa isa) {
  const qrt::CpuFeatures here = qrt::CpuFeatures::Detect();
  std::istringstream flags{std::string(isa_info(isa).cpu_flags)};
  bool tiles = false, all = true;
  for (std::string flag; flags >> flag;) {
    const bool of_tiles = flag == "amx_tile" || flag == "amx_int8" || flag == "xtiledata";
    tiles |= of_tiles;
    if (here.Has(flag)) continue;
    if (!of_tiles && flag != "avx_vnni")
      return "this machine lacks " + flag + ", which " + std::string(isa_info(isa).name) + " needs";
    all = false;
  }
  if (!all || (tiles && !qrt::RequestTileRegisters())) Emulate();
  return "";
}

bool ProductsAreEmulated(Isa isa) {
  return isa_info(isa).cpu_flags.find("avx_vnni") != std::string_view::npos &&
         !qrt::CpuFeatures::Detect().Has("avx_vnni");
}

uint64_t EmulatedInstructions() {
  return g_emulated.load(std::memory_order_relaxed);
}

}  // namespace qcc::cpu
