// targets, explain.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/cpu/kernels/isa.h"
#include "codegen/gpu/kernels/profiles.h"
#include "compiler/driver/commands.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

// docs/reference/errors.md; each code has a table row: | `Q1234` | condition | what to do |.
constexpr std::string_view kErrorPages =
#include "compiler/driver/error_pages.inc"
    ;

// Text between `*begin` and the next " | " or line end; moves *begin behind it.
std::string_view Cell(std::string_view row, size_t* begin) {
  const size_t end = std::min(row.find(" |", *begin), row.size());
  const std::string_view cell = row.substr(*begin, end - *begin);
  *begin = std::min(end + 3, row.size());
  return cell;
}

// A row of the pages.
struct CodePage {
  std::string code;
  std::string_view condition, help;
};

absl::StatusOr<CodePage> FindPage(std::string_view code) {
  std::string wanted(code);
  if (!wanted.empty() && wanted[0] == 'q') wanted[0] = 'Q';
  if (!wanted.empty() && std::isdigit(static_cast<unsigned char>(wanted[0]))) wanted.insert(0, "Q");
  const std::string mark = Concat("\n| `", wanted, "` | ");
  const size_t at = kErrorPages.find(mark);
  if (at == std::string_view::npos) {
    return MakeError("Q0104", Concat("there is no error code '", code, "'"), "qcc explain",
                     "a code looks like Q1203 and stands in brackets behind an error");
  }
  std::string_view row = kErrorPages.substr(at + mark.size());
  row = row.substr(0, row.find('\n'));
  size_t begin = 0;
  const std::string_view condition = Cell(row, &begin), help = Cell(row, &begin);
  return CodePage{wanted, condition, help};
}

}  // namespace

absl::StatusOr<std::string> ExplainCode(std::string_view code) {
  absl::StatusOr<CodePage> page = FindPage(code);
  if (!page.ok()) return page.status();
  return Concat(page->code, ": ", page->condition, "\n  help: ", page->help, "\n");
}

absl::StatusOr<nlohmann::ordered_json> ExplainCodeJson(std::string_view code) {
  absl::StatusOr<CodePage> page = FindPage(code);
  if (!page.ok()) return page.status();
  return nlohmann::ordered_json{{"code", page->code}, {"condition", page->condition}, {"help", page->help}};
}

nlohmann::ordered_json TargetsJson() {
  using nlohmann::ordered_json;
  ordered_json cpus = ordered_json::array(), gpus = ordered_json::array();
  for (const cpu::IsaInfo& isa : cpu::isa_table()) {
    cpus.push_back({{"name", std::string(isa.name)},
                    {"needs", std::string(isa.cpu_flags)},
                    {"native", isa.id == cpu::host_isa()}});
  }
  for (const gpu::ProfileInfo& info : gpu::Profiles()) {
    gpus.push_back({{"target", std::string(info.target)},
                    {"name", std::string(info.profile.name)},
                    {"needs", std::string(info.needs)},
                    {"usual", info.by_default}});
  }
  return {{"cpu", cpus}, {"gpu", gpus}};
}

std::string TargetsText() {
  std::string out = "target  value of --cpu  needs\n";
  const cpu::Isa host = cpu::host_isa();
  for (const cpu::IsaInfo& isa : cpu::isa_table()) {
    std::string name(isa.name);
    if (isa.id == host) name += " *";
    name.resize(std::max<size_t>(name.size(), 14), ' ');
    out += Concat("cpu     ", name, "  ", isa.cpu_flags, "\n");
  }
  out += "* what --cpu=native means on this machine; --cpu takes several: --cpu=v3,v4vnni\n";
  out += "\ntarget  --gpu-profiles   needs\n";
  for (const gpu::ProfileInfo& info : gpu::Profiles()) {
    std::string target = info.target, name = info.profile.name + (info.by_default ? " +" : "");
    target.resize(std::max<size_t>(target.size(), 6), ' ');
    name.resize(std::max<size_t>(name.size(), 14), ' ');
    out += Concat(target, "  ", name, "  ", info.needs, "\n");
  }
  out +=
      "+ compiled in when --gpu-profiles names none of the target; the runtime takes the first that fits,\n"
      "  on Intel's GPUs the one of its kind with the smallest subgroups\n";
  return out;
}

void AddTargets(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("targets", "list what can be compiled for, and what each needs");
  AddJson(*command, cli);
  command->callback([&cli] {
    cli.run = [&cli] {
      if (cli.json) {
        PrintJson(TargetsJson());
      } else {
        std::fputs(TargetsText().c_str(), stdout);
      }
      return absl::OkStatus();
    };
  });
}

void AddExplain(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("explain", "say more about an error code");
  auto code = std::make_shared<std::string>();
  command->add_option("code", *code, "for example Q1203")->required();
  AddJson(*command, cli);
  command->callback([code, &cli] {
    cli.run = [code, &cli]() -> absl::Status {
      if (cli.json) {
        absl::StatusOr<nlohmann::ordered_json> page = ExplainCodeJson(*code);
        if (page.ok()) PrintJson(*page);
        return page.status();
      }
      absl::StatusOr<std::string> page = ExplainCode(*code);
      if (!page.ok()) return page.status();
      std::fputs(page->c_str(), stdout);
      return absl::OkStatus();
    };
  });
}

}  // namespace qcc::compiler
