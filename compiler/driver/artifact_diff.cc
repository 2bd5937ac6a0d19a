#include "compiler/driver/artifact_diff.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "compiler/driver/inspect.h"

namespace qcc::compiler {
namespace {

using qrt::Hex;
using Values = std::map<std::string, Json>;

// Where something lies follows from what lies before it.
constexpr std::string_view kPlaces[] = {"section", "weights_section", "chat_template_section",
                                        "goldens_section"};

std::string NameOf(const Json& entry, size_t index) {
  if (entry.is_object() && entry.contains("isa")) {
    return entry["target"].get<std::string>() + " " + entry["isa"].get<std::string>();
  }
  if (entry.is_object() && entry.contains("name")) return entry["name"].get<std::string>();
  return std::to_string(index);
}

// The leaves of `json` by their path. Lists of numbers and texts are leaves.
void Flatten(const std::string& path, const Json& json, Values& out) {
  const std::string begin = path.empty() ? "" : path + ".";
  const bool list = json.is_array() && std::any_of(json.begin(), json.end(),
                                                   [](const Json& entry) { return entry.is_object(); });
  if (list) {
    std::set<std::string> seen;
    for (size_t i = 0; i < json.size(); ++i) {
      std::string name = NameOf(json[i], i);
      if (!seen.insert(name).second) name += " #" + std::to_string(i);
      Flatten(begin + name, json[i], out);
    }
  } else if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      if (std::find(std::begin(kPlaces), std::end(kPlaces), key) == std::end(kPlaces)) {
        Flatten(begin + key, value, out);
      }
    }
  } else {
    out[path] = json;
  }
}

std::vector<Difference> Differences(const Values& a, const Values& b) {
  std::vector<Difference> out;
  std::set<std::string> names;
  for (const auto& [name, value] : a) names.insert(name);
  for (const auto& [name, value] : b) names.insert(name);
  for (const std::string& name : names) {
    const auto in_a = a.find(name), in_b = b.find(name);
    Json left = in_a == a.end() ? Json(nullptr) : in_a->second;
    Json right = in_b == b.end() ? Json(nullptr) : in_b->second;
    if (left != right) out.push_back({name, std::move(left), std::move(right)});
  }
  return out;
}

// All but the manifest, which is compared by fields.
Values SectionsOf(const qrt::Artifact& artifact) {
  Values out;
  for (uint32_t i = 0; i < artifact.sections().size(); ++i) {
    const qrt::Section& s = artifact.sections()[i];
    if (s.kind == QBIN_SECTION_MANIFEST) continue;
    std::string name = qrt::SectionKindName(s.kind);
    for (const qrt::CodeInfo& code : artifact.manifest().code) {
      if (code.section == i) name += " " + code.target + " " + code.isa;
      if (code.weights_section == i && name.find(" " + code.target) == std::string::npos) {
        name += " " + code.target;
      }
    }
    while (out.contains(name)) name += " again";
    out[name] = {{"bytes", s.size}, {"hash", Hex(s.hash)}};
  }
  return out;
}

// A section of weights is called by the targets that read it, and is the same where others do so as well.
void LeaveOutEqualWeights(Values& a, Values& b) {
  const auto weights = [](const auto& section) {
    return section.first.starts_with(qrt::SectionKindName(QBIN_SECTION_WEIGHTS));
  };
  std::erase_if(a, [&](const auto& section) {
    const auto same = std::find_if(b.begin(), b.end(), [&](const auto& other) {
      return weights(section) && weights(other) && section.second == other.second;
    });
    if (same == b.end()) return false;
    b.erase(same);
    return true;
  });
}

struct Weight {
  Json facts;
  std::span<const uint8_t> bytes;
};

// By name; one that lies in several sections by the targets of each, too.
std::map<std::string, Weight> WeightsOf(const qrt::Artifact& artifact) {
  std::map<std::string, Weight> out;
  const qrt::Manifest& m = artifact.manifest();
  for (size_t i = 0; i < m.code.size(); ++i) {
    const uint32_t section = m.code[i].weights_section;
    const bool again = std::any_of(m.code.begin(), m.code.begin() + static_cast<ptrdiff_t>(i),
                                   [&](const auto& other) { return other.weights_section == section; });
    if (again || !qrt::KnownTarget(m.code[i].target)) continue;
    for (const qrt::WeightInfo& w : m.weights) {
      if (w.section != section) continue;
      const std::string name = out.contains(w.name) ? w.name + " for " + m.code[i].target : w.name;
      out[name] = {
          {{"format", w.format}, {"layout", w.layout}, {"shape", {w.rows, w.cols}}, {"bytes", w.bytes}},
          artifact.weights(i).subspan(w.offset, w.bytes)};
    }
  }
  return out;
}

absl::Status CompareWeights(const qrt::Artifact& a, const qrt::Artifact& b, const std::function<bool()>& stop,
                            ArtifactDiff* diff) {
  const auto in_a = WeightsOf(a), in_b = WeightsOf(b);
  std::set<std::string> names;
  for (const auto& [name, weight] : in_a) names.insert(name);
  for (const auto& [name, weight] : in_b) names.insert(name);
  for (const std::string& name : names) {
    if (stop()) return absl::CancelledError("interrupted");
    const auto left = in_a.find(name), right = in_b.find(name);
    if (left == in_a.end() || right == in_b.end() || left->second.facts != right->second.facts) {
      diff->weights.push_back({name, left == in_a.end() ? Json(nullptr) : left->second.facts,
                               right == in_b.end() ? Json(nullptr) : right->second.facts, std::nullopt});
      continue;
    }
    const std::span<const uint8_t> x = left->second.bytes, y = right->second.bytes;
    const auto at = std::mismatch(x.begin(), x.end(), y.begin(), y.end());
    if (at.first == x.end()) continue;
    diff->weights.push_back(
        {name, left->second.facts, right->second.facts, static_cast<uint64_t>(at.first - x.begin())});
  }
  return absl::OkStatus();
}

std::string Value(const Json& value) {
  return value.is_null() ? "none" : Clean(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

absl::StatusOr<ArtifactDiff> DiffArtifacts(const qrt::Artifact& a, const qrt::Artifact& b,
                                           const std::function<bool()>& stop) {
  ArtifactDiff diff;
  diff.a = a.path();
  diff.b = b.path();
  if (a.identity() == b.identity()) {
    // Which vouches for the weights of whole artifacts: one of these may be damaged.
    if (absl::Status s = CompareWeights(a, b, stop, &diff); !s.ok()) return s;
    diff.equal = diff.weights.empty();
    diff.damaged = !diff.equal;
    return diff;
  }
  const absl::StatusOr<ArtifactContents> in_a = ReadContents(a), in_b = ReadContents(b);
  if (!in_a.ok()) return in_a.status();
  if (!in_b.ok()) return in_b.status();
  Values sections_a = SectionsOf(a), sections_b = SectionsOf(b);
  LeaveOutEqualWeights(sections_a, sections_b);
  diff.sections = Differences(sections_a, sections_b);
  Values fields_a, fields_b;
  for (auto& [contents, fields] : {std::pair(&*in_a, &fields_a), std::pair(&*in_b, &fields_b)}) {
    Json manifest = ManifestJson(*contents);
    manifest.erase("weights");  // they are compared with their bytes
    manifest["format"] = {{"minor", contents->minor}, {"required_features", contents->required_features}};
    Flatten("", manifest, *fields);
  }
  diff.fields = Differences(fields_a, fields_b);
  if (absl::Status s = CompareWeights(a, b, stop, &diff); !s.ok()) return s;
  return diff;
}

std::string DiffText(const ArtifactDiff& diff) {
  std::string out;
  if (diff.equal) return out;
  Append(out, "%s and %s differ: %zu sections, %zu fields of the manifest, %zu weights\n",
         Clean(diff.a).c_str(), Clean(diff.b).c_str(), diff.sections.size(), diff.fields.size(),
         diff.weights.size());
  auto add = [&out](const char* what, const std::string& name, const Json& a, const Json& b) {
    Append(out, "%s %s: %s -> %s\n", what, Clean(name).c_str(), Value(a).c_str(), Value(b).c_str());
  };
  for (const Difference& d : diff.sections) add("section", d.name, d.a, d.b);
  for (const Difference& d : diff.fields) add("manifest", d.name, d.a, d.b);
  for (const WeightDifference& w : diff.weights) {
    if (!w.first_byte) {
      add("weight", w.name, w.a, w.b);
    } else {
      Append(out, "weight %s: its bytes differ from byte %llu on\n", Clean(w.name).c_str(),
             static_cast<unsigned long long>(*w.first_byte));
    }
  }
  if (diff.damaged) out += "their hashes are the same, so one is damaged: qcc verify says which\n";
  return out;
}

std::string DiffJson(const ArtifactDiff& diff) {
  Json root = {{"schema", 1},
               {"a", diff.a},
               {"b", diff.b},
               {"equal", diff.equal},
               {"sections", Json::array()},
               {"manifest", Json::array()},
               {"weights", Json::array()}};
  for (const Difference& d : diff.sections) {
    root["sections"].push_back({{"name", d.name}, {"a", d.a}, {"b", d.b}});
  }
  for (const Difference& d : diff.fields) {
    root["manifest"].push_back({{"field", d.name}, {"a", d.a}, {"b", d.b}});
  }
  for (const WeightDifference& w : diff.weights) {
    root["weights"].push_back(
        {{"name", w.name}, {"a", w.a}, {"b", w.b}, {"first_byte", OrNull(w.first_byte)}});
  }
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace qcc::compiler
