#pragma once

#include <functional>

namespace CLI {
class App;
}

// The subcommands, one file per subcommand. Each function adds one subcommand to the tree. If the command
// line names it, parsing stores in `action` the function to run. An action throws Error for every status
// except 0.
namespace attnctl::cli {

using Action = std::function<void()>;

void add_analyze(CLI::App& app, Action& action);
void add_weights(CLI::App& app, Action& action);
void add_info(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_experiment(CLI::App& app, Action& action);
void add_study(CLI::App& app, Action& action);
void add_merge(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_schema(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);  // hidden; the installation uses it

}  // namespace attnctl::cli
