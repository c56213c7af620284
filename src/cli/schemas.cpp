#include "cli/schemas.hpp"

#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/session.hpp"

namespace attnctl::cli {

std::string_view schema_text(std::string_view name) {
  std::string names;
  for (const Schema& schema : schemas()) {
    if (name == schema.name || name == fmt::format("attnctl.{}/1", schema.name)) return schema.text;
    names += (names.empty() ? "" : ", ") + std::string(schema.name);
  }
  fail(Status::usage, "schema: unsupported \"{}\"; supported: {}", escaped(name), names);
}

Command schema_command() {
  Command command{.name = "schema", .about = "Print the JSON Schema of the JSON output of a command"};
  auto name = std::make_shared<std::string>();
  Option option{
      .names = "NAME",
      .target = name.get(),
      .help = "Name of the schema, as in the first key of a JSON output: \"schema\": \"attnctl.NAME/1\"",
      .required = true};
  for (const Schema& schema : schemas()) option.allowed.emplace_back(schema.name);
  command.add({std::move(option)});
  command.footer = "Examples:\n  attnctl schema analysis\n  attnctl schema info | jq .title";
  command.action = [name] { write_to_stdout(schema_text(*name)); };
  return command;
}

}  // namespace attnctl::cli
