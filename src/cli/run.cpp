#include "attnctl/cli/run.hpp"

#include "attnctl/base/error.hpp"

#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

namespace attnctl::cli {

int run(int argc, char** argv) {
  CLI::App app{"See what every attention head of a transformer does", "attnctl"};
  app.set_version_flag("--version", ATTNCTL_VERSION);
  try {
    app.parse(argc, argv);
    return static_cast<int>(Status::ok);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "attnctl: %s\n", escaped(error.what()).c_str());
    return static_cast<int>(Status::usage);
  }
}

}  // namespace attnctl::cli
