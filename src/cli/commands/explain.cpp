#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <set>

#include "analysis/model_summary.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/session.hpp"
#include "study/measure.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::cli {
namespace {

constexpr std::array<std::string_view, 7> kFields = {"where", "name",    "unit",  "range",
                                                     "null",  "meaning", "source"};

/// Returns all definitions, each group with its place, such as "study --measures pairs".
std::vector<std::pair<std::string, NamedDefinitions>> all_definitions() {
  std::vector<std::pair<std::string, NamedDefinitions>> all;
  const auto add = [&](const char* option, const std::vector<std::string>& values, const char* other,
                       const std::vector<NamedDefinitions>& groups) {
    for (const NamedDefinitions& group : groups) {
      const bool is_value = std::ranges::find(values, group.where) != values.end();
      all.emplace_back(fmt::format("{}{}", is_value ? option : other, group.where), group);
    }
  };
  add("", {}, "several tables", {{"", key_definitions()}});
  add("analyze --include ", inspect::include_names(), "analyze, table ", inspect::definitions());
  add("study --measures ", texts_of(study::measure_catalogue(), &study::MeasureRow::name), "",
      study::definitions());
  add("", {}, "experiment ", textbook::definitions());
  add("", {}, "info, table ", analysis::summary_definitions());
  return all;
}

/// Adds a label and the words of a text to its right, in lines of at most 80 columns.
void add_wrapped(std::vector<PageBlock>& page, const std::string& label, std::string_view text) {
  std::string line = label;
  for (const std::string_view word : split(text, ' ')) {
    if (line.size() + word.size() >= 80) {
      page.emplace_back(TextLine{"", line});
      line.assign(label.size(), ' ');
    }
    line.append(" ").append(word);
  }
  page.emplace_back(TextLine{"", line});
}

/// Returns all definitions of the analyses, measures, experiments and tables with this name, then those of
/// the columns with this name (`score` is also the name of `roles.score`). If there are none, uses the
/// longest known end of the name: count for confidence_count. An empty name selects all definitions; the text
/// then has only their names.
Results explained(const std::string& given) {
  const std::vector<std::string> known = explained_names();
  std::string name = given;
  while (!name.empty() && std::ranges::find(known, name) == known.end())
    name.erase(0, std::min(name.find_first_of("._"), name.size() - 1) + 1);
  if (name.empty() && !given.empty())
    fail(Status::usage, "explain: unknown name \"{}\"{}; run attnctl explain for a list of all names",
         escaped(given), did_you_mean(given, known));
  Results results;
  std::vector<PageBlock>& page = results.text;
  const auto add_title = [&page](std::string_view title) {
    if (!page.empty()) page.emplace_back(TextLine{""});
    page.emplace_back(TextLine{std::string(title)});
  };
  if (name != given) add_title(fmt::format("No entry for {}; its end {} has one:", escaped(given), name));
  auto all = all_definitions();
  std::stable_partition(all.begin(), all.end(),
                        [&](const auto& place) { return place.second.where == name; });
  std::vector<std::vector<Cell>> rows;
  for (const auto& [place, group] : all) {
    const bool whole = name.empty() || group.where == name;
    if (whole && !name.empty()) add_title(place);
    const std::string names = join_texts(group.definitions, &Definition::name);
    if (name.empty()) add_wrapped(page, fmt::format("{:<32}", place), names);
    for (const Definition& about : group.definitions) {
      if (!whole && !("." + std::string(about.name)).ends_with("." + name)) continue;
      const std::array<std::string_view, kFields.size()> texts = {
          place, about.name, about.unit, about.range, about.null, about.meaning, about.source};
      std::ranges::transform(texts, std::back_inserter(rows.emplace_back()), study::text_cell);
      if (whole && !name.empty()) add_wrapped(page, fmt::format("  {:<20}", about.name), about.meaning);
      if (!whole) add_title(about.name);
      for (std::size_t i = 0; i < texts.size() && !whole; ++i)
        if (kFields[i] != "name" && !texts[i].empty())
          add_wrapped(page, fmt::format("  {:<8}", kFields[i]), texts[i]);
    }
  }
  results.tables = {make_table("definitions", {kFields.begin(), kFields.end()}, std::move(rows))};
  results.document.sections = {{"definitions", "definition", results.tables.front()}};
  return results;
}

}  // namespace

std::string explanation(const std::string& name) {
  return report::text_page(explained(name).text, text_style({{}, "-", {}}));
}

std::vector<std::string> explained_names() {
  std::set<std::string_view> names;
  for (const auto& [place, group] : all_definitions()) {
    names.insert(group.where);
    for (const Definition& about : group.definitions)
      names.insert({about.name, about.name.substr(about.name.rfind('.') + 1)});
  }
  names.erase("");
  return {names.begin(), names.end()};
}

Command explain_command() {
  Command command{.name = "explain", .about = "Print what a column, metric, measure or analysis means"};
  auto name = std::make_shared<std::string>();
  auto options = std::make_shared<CommandOptions>();
  command.add({{"NAME", name.get(),
                "Column or metric; or analysis, measure or experiment, for the meanings of all its columns "
                "(default: list all names)"}});
  add_target_options(command, options->output, {"json", "jsonl", "csv", "text"});
  options->output.default_table = "definitions";
  command.footer =
      "Examples:\n  attnctl explain --format text\n  attnctl explain confidence --format text\n"
      "  attnctl explain pairs | jq '.definitions[0].meaning'";
  command.action = [name, options] {
    const Target target = resolve_target(options->output, {});
    Session session(options->run);
    ResultWriter(target, options->output, session).write("attnctl.definitions/2", explained(*name));
    print_warnings(session);
  };
  return command;
}

}  // namespace attnctl::cli
