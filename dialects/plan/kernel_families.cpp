#include "dialects/plan/kernel_families.h"

#include <type_traits>
#include <utility>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace qcc::plan {
namespace {

StringRef str(std::string_view text) {
  return {text.data(), text.size()};
}
std::string_view view(StringRef text) {
  return {text.data(), text.size()};
}

// ---- one constant of a spec and its attribute: what its type is called, from and to the textual form ----

StringRef typeName(int64_t) {
  return "i64";
}
StringRef typeName(float) {
  return "f32";
}
StringRef typeName(double) {
  return "f64";
}
StringRef typeName(bool) {
  return "true or false";
}
StringRef typeName(Format) {
  return "string";
}
template <Choice E>
StringRef typeName(E) {
  return "string";
}
StringRef typeName(const std::vector<int64_t>&) {
  return "array<i64>";
}

Attribute attrOf(Builder& b, int64_t value) {
  return b.getI64IntegerAttr(value);
}
Attribute attrOf(Builder& b, float value) {
  return b.getF32FloatAttr(value);
}
Attribute attrOf(Builder& b, double value) {
  return b.getF64FloatAttr(value);
}
Attribute attrOf(Builder& b, bool value) {
  return b.getBoolAttr(value);
}
Attribute attrOf(Builder& b, Format value) {
  return b.getStringAttr(str(format_info(value).name));
}
template <Choice E>
Attribute attrOf(Builder& b, E value) {
  return b.getStringAttr(str(textOf(value)));
}
Attribute attrOf(Builder& b, const std::vector<int64_t>& value) {
  return b.getDenseI64ArrayAttr(value);
}

// False: the attribute is of another type. A text that is no choice is read as nothing: see `choices`.
bool read(Attribute attr, int64_t& value) {
  auto i = dyn_cast<IntegerAttr>(attr);
  if (!i || !i.getType().isInteger(64)) return false;
  value = i.getInt();
  return true;
}
bool read(Attribute attr, float& value) {
  auto f = dyn_cast<FloatAttr>(attr);
  if (!f || !f.getType().isF32()) return false;
  value = f.getValue().convertToFloat();
  return true;
}
bool read(Attribute attr, double& value) {
  auto f = dyn_cast<FloatAttr>(attr);
  if (!f || !f.getType().isF64()) return false;
  value = f.getValue().convertToDouble();
  return true;
}
bool read(Attribute attr, bool& value) {
  auto flag = dyn_cast<BoolAttr>(attr);
  if (flag) value = flag.getValue();
  return static_cast<bool>(flag);
}
bool read(Attribute attr, Format& value) {
  auto text = dyn_cast<StringAttr>(attr);
  if (text)
    if (std::optional<Format> format = format_from_name(view(text.getValue()))) value = *format;
  return static_cast<bool>(text);
}
template <Choice E>
bool read(Attribute attr, E& value) {
  auto text = dyn_cast<StringAttr>(attr);
  if (text)
    for (const auto& choice : choicesOf(value))
      if (choice.text == view(text.getValue())) value = choice.value;
  return static_cast<bool>(text);
}
bool read(Attribute attr, std::vector<int64_t>& value) {
  auto list = dyn_cast<DenseI64ArrayAttr>(attr);
  if (list) value = std::vector<int64_t>(list.asArrayRef());
  return static_cast<bool>(list);
}

// What a value of the right type must be besides; empty: it is. `entries`: of a list.
std::string demandOn(Attribute, int64_t value, int64_t) {
  return value > 0 ? "" : "be positive, found " + std::to_string(value);
}
std::string demandOn(Attribute attr, Format value, int64_t) {
  return cast<StringAttr>(attr).getValue() == str(format_info(value).name)
             ? ""
             : "be a format of the table, found ";
}
template <Choice E>
std::string demandOn(Attribute attr, E value, int64_t) {
  if (cast<StringAttr>(attr).getValue() == str(textOf(value))) return "";
  SmallVector<StringRef> texts;
  for (const auto& choice : choicesOf(value)) texts.push_back(str(choice.text));
  return "be one of " + llvm::join(texts, "|") + ", found ";
}
std::string demandOn(Attribute, const std::vector<int64_t>& value, int64_t entries) {
  int64_t n = value.size();
  if (n == 0 || n == entries) return "";
  return "have " + std::to_string(entries) + " entries or none, found " + std::to_string(n);
}
std::string demandOn(Attribute, float, int64_t) {
  return "";
}
std::string demandOn(Attribute, double, int64_t) {
  return "";
}
std::string demandOn(Attribute, bool, int64_t) {
  return "";
}

// Whether the bytes of every role fit in 64 bits. They are sums of products of different numbers of the spec,
// so at most the product of all, times what elements, pairs and rounding up to groups come to, less than 256.
template <class Spec>
bool bytesFit(Spec& spec) {
  int64_t most = 256;
  bool fits = true;
  forEachKey(spec, [&](StringRef, [[maybe_unused]] auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, int64_t>)
      fits = fits && !llvm::MulOverflow(most, value, most);
  });
  return fits;
}

template <class Spec>
LogicalResult check(Spec spec, DictionaryAttr dict, function_ref<InFlightDiagnostic()> emitError) {
  LogicalResult result = success();
  SmallVector<StringRef> known;
  forEachKey(spec, [&](StringRef key, auto& value) {
    known.push_back(key);
    if (failed(result)) return;
    Attribute attr = dict.get(key);
    auto complain = [&]() -> InFlightDiagnostic {
      result = failure();
      return emitError() << "spec key '" << key << "' of family '" << str(Spec::kFamily) << "' must ";
    };
    if (!attr) {
      result = emitError() << "family '" << str(Spec::kFamily) << "' needs spec key '" << key << "' ("
                           << typeName(value) << ")";
    } else if (!read(attr, value)) {
      complain() << "be " << typeName(value) << ", found " << attr;
    } else if (std::string demand = demandOn(attr, value, listEntries(spec, view(key))); !demand.empty()) {
      InFlightDiagnostic error = complain() << demand;
      if (isa<StringAttr>(attr)) error << attr;
    }
  });
  if (failed(result)) return failure();
  if (!bytesFit(spec))
    return emitError() << "spec of family '" << str(Spec::kFamily)
                       << "' has numbers too large for the bytes of its roles to fit in 64 bits";
  for (NamedAttribute entry : dict)
    if (!llvm::is_contained(known, entry.getName().getValue()))
      return emitError() << "family '" << str(Spec::kFamily) << "' has no spec key '"
                         << entry.getName().getValue() << "'";
  return success();
}

template <class Spec>
DictionaryAttr makeAttr(Builder& b, const Spec& spec) {
  SmallVector<NamedAttribute> entries;
  forEachKey(spec, [&](StringRef key, const auto& value) {
    entries.emplace_back(b.getStringAttr(key), attrOf(b, value));
  });
  return b.getDictionaryAttr(entries);
}

Element elementOf(KvElement kv) {
  switch (kv) {
    case KvElement::F32:
      return Element::F32;
    case KvElement::F16:
      return Element::F16;
    case KvElement::B16:
      return Element::B16;
  }
  llvm_unreachable("all elements are listed");
}

}  // namespace

#define QCC_FAMILY(name, Name)                        \
  std::vector<Role> rolesOf(const Name##Spec& spec) { \
    [[maybe_unused]] const Name##Spec& s = spec;      \
    std::vector<Role> roles;
#define QCC_WEIGHT(role, element, unit, presence, layout, cols, bytes) \
  roles.push_back(                                                     \
      {#role, Space::Weights, false, unit, presence, Access::Read, bytes, layout, cols, std::nullopt});
#define QCC_BUFFER(role, element, unit, presence, access, bytes) \
  roles.push_back({#role, Space::Arena, false, unit, presence, access, bytes, std::nullopt, 0, std::nullopt});
#define QCC_OUTPUT(role, element, unit, presence, access, bytes) \
  roles.push_back({#role, Space::Arena, true, unit, presence, access, bytes, std::nullopt, 0, std::nullopt});
#define QCC_STATE(role, kind, bytes)                                                                      \
  roles.push_back({#role, Space::State, false, Unit::Whole, Presence::Required, Access::ReadWrite, bytes, \
                   std::nullopt, 0, Role::State{kind, Element::F32}});
#define QCC_KV(role, access, bytes)                                                                          \
  roles.push_back({#role, Space::KV, false, Unit::Whole, Presence::Required, access, bytes, std::nullopt, 0, \
                   Role::State{StateKind::KV, elementOf(s.kv)}});
#define QCC_END(name, Name) \
  return roles;             \
  }
#include "dialects/plan/kernel_families.def"

#define QCC_FAMILY(name, Name)                                                         \
  DictionaryAttr specAttr(Builder& b, const Name##Spec& spec) {                        \
    return makeAttr(b, spec);                                                          \
  }                                                                                    \
  void readSpec(DictionaryAttr dict, Name##Spec& spec) {                               \
    forEachKey(spec, [&](StringRef key, auto& value) { read(dict.get(key), value); }); \
  }
#include "dialects/plan/kernel_families.def"

std::vector<Role> rolesOf(StringRef family, DictionaryAttr dict) {
  std::vector<Role> roles;
  withFamily(view(family), [&](auto spec) {
    readSpec(dict, spec);
    roles = rolesOf(spec);
  });
  return roles;
}

Role roleOf(DispatchOp op, StringRef name) {
  for (const Role& role : rolesOf(op.getFamily(), op.getSpec()))
    if (role.name == view(name)) return role;
  llvm_unreachable("a verified dispatch binds roles of its family");
}

LogicalResult checkSpec(StringRef family, DictionaryAttr dict, function_ref<InFlightDiagnostic()> emitError) {
  LogicalResult result = failure();
  bool known = withFamily(view(family), [&](auto spec) { result = check(std::move(spec), dict, emitError); });
  if (!known) return emitError() << "unknown kernel family '" << family << "'";
  return result;
}

DispatchOp createDispatch(OpBuilder& b, Location loc, StringRef family, DictionaryAttr spec,
                          ArrayRef<BoundRole> roles) {
  SmallVector<StringRef> names, buffers;
  SmallVector<Attribute> refs;
  for (const BoundRole& bound : roles) {
    names.push_back(str(bound.role.name));
    buffers.push_back(bound.ref->buffer);
    refs.push_back(RefAttr::get(b.getContext(), bound.ref->space, bound.ref->offset, bound.ref->bytes,
                                bound.role.access));
  }
  return DispatchOp::create(b, loc, family, spec, b.getStrArrayAttr(names), b.getArrayAttr(refs),
                            b.getStrArrayAttr(buffers));
}

Ref refOf(DispatchOp op, StringRef role) {
  for (auto [i, name] : llvm::enumerate(op.getRoles().getAsRange<StringAttr>())) {
    if (name.getValue() != role) continue;
    auto ref = cast<RefAttr>(op.getBindings()[i]);
    std::string buffer = op.getBuffers() ? cast<StringAttr>((*op.getBuffers())[i]).str() : "";
    return {ref.getSpace(), ref.getOffset(), ref.getBytes(), std::move(buffer)};
  }
  return {};
}

int64_t dispatchRows(DispatchOp op) {
  int64_t rows = 0;
  visitDispatch(op, [&](const auto& spec, const auto& bindings) {
    forEachRole(spec, bindings, [&](const RoleExtent& role, const Ref& ref) {
      if (rows == 0 && ref && role.unit == Unit::Rows) rows = ref.bytes / role.bytes;
    });
  });
  return rows;
}

}  // namespace qcc::plan
