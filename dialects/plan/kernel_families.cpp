#include "dialects/plan/kernel_families.h"

#include "dialects/plan/pack_layout.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace mlir;

namespace qcc::plan {

int64_t Spec::integer(StringRef key) const {
  return cast<IntegerAttr>(dict.get(key)).getInt();
}
bool Spec::flag(StringRef key) const {
  return cast<BoolAttr>(dict.get(key)).getValue();
}
StringRef Spec::string(StringRef key) const {
  return cast<StringAttr>(dict.get(key)).getValue();
}
Format Spec::format() const {
  StringRef name = string("format");
  return *format_from_name(std::string_view(name.data(), name.size()));
}

namespace {

// Channels of the gated delta net's convolution: queries, keys and values.
int64_t gdn_channels(const Spec& s) {
  return 2 * s.integer("key_heads") * s.integer("key_dim") +
         s.integer("value_heads") * s.integer("value_dim");
}

// One K and one V row of all kv heads.
int64_t kv_token_bytes(const Spec& s) {
  return 2 * s.integer("kv_heads") * s.integer("head_dim") * (s.string("kv") == "f16" ? 2 : 4);
}

std::optional<Layout> noLayout(const Spec&) {
  return std::nullopt;
}
int64_t noCols(const Spec&) {
  return 0;
}

std::vector<Family> makeFamilies() {
  std::vector<Family> t;
#define QCC_EXPR(type, e) [](const Spec& s) -> type { return e; }
#define QCC_FAMILY(name) t.push_back({#name, {}, {}});
#define QCC_SPEC(key, type, choices) t.back().spec.push_back({#key, SpecType::type, choices});
#define QCC_WEIGHT(role, unit, layout, cols, bytes)                                                 \
  t.back().roles.push_back({#role, Space::Weights, false, QCC_EXPR(Unit, unit),                     \
                            QCC_EXPR(Presence, Presence::Required), QCC_EXPR(Access, Access::Read), \
                            QCC_EXPR(int64_t, (bytes)), QCC_EXPR(std::optional<Layout>, layout),    \
                            QCC_EXPR(int64_t, cols)});
#define QCC_BUFFER(role, unit, presence, access, bytes)                                                     \
  t.back().roles.push_back({#role, Space::Arena, false, QCC_EXPR(Unit, unit), QCC_EXPR(Presence, presence), \
                            QCC_EXPR(Access, access), QCC_EXPR(int64_t, (bytes)), noLayout, noCols});
#define QCC_OUTPUT(role, unit, presence, access, bytes)                                                    \
  t.back().roles.push_back({#role, Space::Arena, true, QCC_EXPR(Unit, unit), QCC_EXPR(Presence, presence), \
                            QCC_EXPR(Access, access), QCC_EXPR(int64_t, (bytes)), noLayout, noCols});
#define QCC_STATE(role, bytes)                                                                           \
  t.back().roles.push_back({#role, Space::State, false, QCC_EXPR(Unit, Unit::Whole),                     \
                            QCC_EXPR(Presence, Presence::Required), QCC_EXPR(Access, Access::ReadWrite), \
                            QCC_EXPR(int64_t, (bytes)), noLayout, noCols});
#define QCC_KV(role, access, bytes)                                                           \
  t.back().roles.push_back({#role, Space::KV, false, QCC_EXPR(Unit, Unit::Whole),             \
                            QCC_EXPR(Presence, Presence::Required), QCC_EXPR(Access, access), \
                            QCC_EXPR(int64_t, (bytes)), noLayout, noCols});
#include "dialects/plan/kernel_families.def"
#undef QCC_EXPR
#undef QCC_FAMILY
#undef QCC_SPEC
#undef QCC_WEIGHT
#undef QCC_BUFFER
#undef QCC_OUTPUT
#undef QCC_STATE
#undef QCC_KV
  return t;
}

StringRef typeName(SpecType type) {
  switch (type) {
    case SpecType::Integer:
      return "i64";
    case SpecType::F32:
      return "f32";
    case SpecType::F64:
      return "f64";
    case SpecType::Flag:
      return "true or false";
    case SpecType::String:
      return "string";
    case SpecType::Integers:
      return "array<i64>";
  }
  llvm_unreachable("all spec types are listed");
}

bool hasType(Attribute value, SpecType type) {
  switch (type) {
    case SpecType::Integer: {
      auto i = dyn_cast<IntegerAttr>(value);
      return i && i.getType().isInteger(64);
    }
    case SpecType::F32: {
      auto f = dyn_cast<FloatAttr>(value);
      return f && f.getType().isF32();
    }
    case SpecType::F64: {
      auto f = dyn_cast<FloatAttr>(value);
      return f && f.getType().isF64();
    }
    case SpecType::Flag:
      return isa<BoolAttr>(value);
    case SpecType::String:
      return isa<StringAttr>(value);
    case SpecType::Integers:
      return isa<DenseI64ArrayAttr>(value);
  }
  llvm_unreachable("all spec types are listed");
}

bool isChoice(StringRef value, StringRef choices) {
  if (choices == "format") return format_from_name(std::string_view(value.data(), value.size())).has_value();
  SmallVector<StringRef> allowed;
  choices.split(allowed, '|');
  return llvm::is_contained(allowed, value);
}

}  // namespace

const Role* Family::role(StringRef name) const {
  for (const Role& r : roles)
    if (r.name == name) return &r;
  return nullptr;
}

const std::vector<Family>& kernelFamilies() {
  static const std::vector<Family> families = makeFamilies();
  return families;
}

const Family* findKernelFamily(StringRef name) {
  for (const Family& f : kernelFamilies())
    if (f.name == name) return &f;
  return nullptr;
}

LogicalResult checkSpec(const Family& family, DictionaryAttr spec,
                        function_ref<InFlightDiagnostic()> emitError) {
  for (const SpecKey& key : family.spec) {
    Attribute value = spec.get(key.name);
    if (!value)
      return emitError() << "family '" << family.name << "' needs spec key '" << key.name << "' ("
                         << typeName(key.type) << ")";
    if (!hasType(value, key.type))
      return emitError() << "spec key '" << key.name << "' of family '" << family.name << "' must be "
                         << typeName(key.type) << ", found " << value;
    if (auto i = dyn_cast<IntegerAttr>(value); key.type == SpecType::Integer && i.getInt() <= 0)
      return emitError() << "spec key '" << key.name << "' of family '" << family.name
                         << "' must be positive, found " << i.getInt();
    if (key.type == SpecType::String && !isChoice(cast<StringAttr>(value).getValue(), key.choices))
      return emitError() << "spec key '" << key.name << "' of family '" << family.name << "' must be "
                         << (key.choices == "format" ? "a format of the table"
                                                     : "one of " + key.choices.str())
                         << ", found " << value;
  }
  for (NamedAttribute entry : spec) {
    bool known = llvm::any_of(family.spec, [&](const SpecKey& k) { return k.name == entry.getName(); });
    if (!known)
      return emitError() << "family '" << family.name << "' has no spec key '" << entry.getName().getValue()
                         << "'";
  }
  return success();
}

}  // namespace qcc::plan
