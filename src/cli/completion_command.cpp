#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "base/files/output_file.hpp"
#include "cli/commands.hpp"
#include "cli/completion.hpp"

namespace attnctl::cli {

void add_completion(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("completion", "Print the completion script of a shell")->group("");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  command->callback([&app, &action, shell] {
    action = [&app, shell] {
      OutputFile out("-");
      out.write(completion_script(app, *shell));
      out.commit();
    };
  });
}

}  // namespace attnctl::cli
