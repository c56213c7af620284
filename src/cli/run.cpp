#include "cli/run.hpp"

#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/interrupt.hpp"
#include "cli/commands.hpp"
#include "cli/version.hpp"
#include "linalg/blas.hpp"

namespace attnctl::cli {
namespace {

int report(Status status, const std::string& message) {
  // Most messages already escape quoted input. Escaping again guarantees that the message is one line.
  std::fprintf(stderr, "attnctl: %s\n", escaped(message).c_str());
  return static_cast<int>(status);
}

void write_to_stdout(const std::string& text) {
  OutputFile out("-");
  out.write(text);
  out.commit();
}

void build_tree(CLI::App& app, Action& action) {
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", [] { return version_text(); });
  app.footer(
      "Examples:\n"
      "  attnctl analyze data/tiny-bert --text \"The cat sat on the mat because it was tired.\" --from it\n"
      "  attnctl tokenize data/tiny-bert --text \"The cat sat on the mat.\"\n"
      "  attnctl info data/tiny-llama\n"
      "Each command has its own --help.");
  add_analyze(app, action);
  add_weights(app, action);
  add_info(app, action);
  add_tokenize(app, action);
  add_verify(app, action);
  add_bench(app, action);
  add_experiment(app, action);
  add_study(app, action);
  add_merge(app, action);
  add_plan(app, action);
  add_schema(app, action);
  add_completion(app, action);
}

/// Parses the command line and returns the action to run; nullopt if it asks for help or the version only.
std::optional<Action> parse(CLI::App& app, Action& action, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    write_to_stdout(app.help());  // help of the named subcommand
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    write_to_stdout(std::string(version.what()) + "\n");
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::string message = error.what();
    for (char& c : message) {
      if (c == '\n') c = ' ';
    }
    fail(Status::usage, "{} (attnctl --help)", message);
  }
  if (!action) fail(Status::usage, "no command; see attnctl --help");
  return action;
}

}  // namespace

int run(int argc, char** argv) {
  try {
    install_signal_handlers();
    CLI::App app{"See what every attention head of a transformer does.", "attnctl"};
    Action action;
    build_tree(app, action);
    if (const auto chosen = parse(app, action, argc, argv)) (*chosen)();
    if (const auto warning = blas_warning()) std::fprintf(stderr, "attnctl: warning: %s\n", warning->c_str());
    return static_cast<int>(Status::ok);
  } catch (const BrokenPipe&) {
    return static_cast<int>(Status::ok);  // a reader that closes the pipe is not an error
  } catch (const Error& error) {
    return report(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return report(Status::limit, "out of memory; select fewer layers or heads, or shorter inputs");
  } catch (const std::exception& error) {
    return report(Status::environment, std::string("internal error: ") + error.what());
  }
}

}  // namespace attnctl::cli
