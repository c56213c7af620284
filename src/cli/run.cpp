#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <variant>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/session.hpp"
#include "linalg/blas.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::cli {
namespace {

int report(Status status, const std::string& message) {
  ignore_signals();
  std::fprintf(stderr, "attnctl: %s\n", message_line(message).c_str());
  return static_cast<int>(status);
}

/// Returns for example "attnctl 0.1.0 (OpenBLAS 0.3.21, kernel SkylakeX, avx512)".
std::string version_text() {
  return fmt::format("attnctl {} ({}, kernel {}, {})", ATTNCTL_VERSION, linalg::blas_name(),
                     linalg::blas_kernel(), linalg::kernels().name);
}

Command schema_command() {
  Command command{.name = "schema", .about = "Print the JSON Schema of the JSON output of a command"};
  auto name = std::make_shared<std::string>();
  const auto names = texts_of(schemas(), &Schema::name);
  command.add({{.names = "NAME",
                .target = name.get(),
                .help = fmt::format(
                    "Name of the schema, as in the first key of a JSON output (\"schema\": "
                    "\"attnctl.NAME/2\"), or of a command that writes JSON (default: list the names): "
                    "{}",
                    fmt::join(names, ", ")),
                .type = "TEXT",
                .offered = names}});
  command.footer = "Examples:\n  attnctl schema analysis\n  attnctl schema info | jq .title";
  command.action = [name, names] {
    write_to_stdout(name->empty() ? fmt::format("{}\n", fmt::join(names, "\n"))
                                  : std::string(schema_text(*name)));
  };
  return command;
}

void run_command_line(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") return write_to_stdout(version_text() + "\n");
  Command root{.name = "attnctl", .about = "See what every attention head of a transformer does."};
  root.version = version_text;
  root.footer =
      "Examples:\n"
      "  attnctl analyze data/tiny-bert \"The cat sat because it was tired.\" --from it\n"
      "  attnctl tokenize data/tiny-bert \"The cat sat on the mat.\"\n"
      "  attnctl info data/tiny-llama\n"
      "attnctl COMMAND --help shows the options of a command.";
  for (MakeCommand* const make :
       {analyze_command, weights_command, view_command, info_command, tokenize_command, verify_command,
        bench_command, experiment_command, study_command, ablate_command, patch_command, attribute_command,
        merge_command, compare_command, series_command, plan_command, explain_command, schema_command})
    root.subcommands.push_back(make());
  root.subcommands.push_back(completion_command(root));
  const auto parsed = parse_command_line(root, argc, argv);
  if (const auto* const text = std::get_if<std::string>(&parsed)) return write_to_stdout(*text);
  const Command& command = *std::get<const Command*>(parsed);
  if (!command.action) {
    std::string help = "--help";
    std::vector<char*> arguments(argv, argv + argc);
    arguments.push_back(help.data());
    write_to_stdout(std::get<std::string>(parse_command_line(root, argc + 1, arguments.data())));
    fail(Status::usage, "need a command: one of {}", join_texts(command.subcommands, &Command::name));
  }
  command.action();
}

}  // namespace

std::string_view schema_text(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kCommands[] = {
      {"analyze", "analysis"}, {"weights", "analysis"},    {"merge", "study"},
      {"tokenize", "tokens"},  {"explain", "definitions"}, {"compare", "comparison"}};
  for (const auto& [command, of] : kCommands)
    if (name == command) name = of;
  for (const Schema& schema : schemas()) {
    if (name == schema.name || name == fmt::format("attnctl.{}/2", schema.name)) return schema.text;
  }
  fail(Status::usage, "schema: unsupported \"{}\"{}; supported: {}", escaped(name),
       did_you_mean(name, schemas(), &Schema::name), join_texts(schemas(), &Schema::name));
}

int run(int argc, char** argv) {
  try {
    install_signal_handlers();
    run_command_line(argc, argv);
    if (const auto warning = linalg::blas_warning())
      std::fprintf(stderr, "attnctl: warning: %s\n", warning->c_str());
    return static_cast<int>(Status::ok);
  } catch (const BrokenPipe&) {
    return static_cast<int>(Status::ok);  // it is not an error if the reader closes the pipe
  } catch (const Error& error) {
    return report(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    end_out_of_memory();
  } catch (const std::exception& error) {
    return report(Status::environment, std::string("internal error: ") + error.what());
  }
}

}  // namespace attnctl::cli
