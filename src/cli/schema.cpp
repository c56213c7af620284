#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/files/output_file.hpp"
#include "cli/commands.hpp"
#include "cli/schemas.hpp"

namespace attnctl::cli {

void add_schema(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("schema", "Print the JSON Schema of an output");
  auto name = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const Schema& schema : schemas()) names.emplace_back(schema.name);
  command->add_option("NAME", *name, "the output")->required()->check(CLI::IsMember(names));
  command->footer("Examples:\n  attnctl schema analysis\n  attnctl schema info | jq .title");
  command->callback([&action, name] {
    action = [name] {
      OutputFile out("-");
      out.write(schema_text(*name));
      out.commit();
    };
  });
}

}  // namespace attnctl::cli
