#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "analysis/model_summary.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/session.hpp"
#include "formats/json.hpp"
#include "inspect/attribute.hpp"
#include "inspect/model_changes.hpp"
#include "inspect/patch.hpp"
#include "study/behaviour.hpp"
#include "study/measure.hpp"
#include "study/series.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::cli {
namespace {

constexpr std::array<std::string_view, 7> kFields = {"where", "name",    "unit",  "range",
                                                     "null",  "meaning", "source"};

/// Definitions with their place, such as "study --measures pairs", and the schema of the results.
struct NameGroup {
  std::string place;
  std::string_view schema;
  NamedDefinitions named;
};

std::vector<NameGroup> all_groups() {
  std::vector<NameGroup> all;
  const auto add = [&](std::string_view schema, const char* option, const std::vector<std::string>& values,
                       const char* other, const std::vector<NamedDefinitions>& groups) {
    for (const NamedDefinitions& group : groups) {
      const bool is_value = std::ranges::find(values, group.where) != values.end();
      const std::string_view of = group.where == "plan"      ? group.where
                                  : group.where == "compare" ? "comparison"
                                                             : schema;
      all.push_back({fmt::format("{}{}", is_value ? option : other, group.where), of, group});
    }
  };
  add("", "", {}, "several tables", {{"", key_definitions()}});
  add("analysis", "analyze --include ", inspect::include_names(), "analyze, table ", inspect::definitions());
  add("study", "study --measures ", texts_of(study::measure_catalogue(), &study::MeasureRow::name), "",
      study::definitions());
  add("experiment", "", {}, "experiment ", textbook::definitions());
  add("patch", "", {}, "patch, table ", {{"patches", inspect::patch_definitions()}});
  add("attribution", "", {}, "attribute, table ", {{"logits", inspect::attribution_definitions()}});
  add("info", "", {}, "info, table ", analysis::summary_definitions());
  all.push_back({"compare MODEL MODEL", "comparison", {"model_changes", inspect::change_definitions()}});
  all.push_back({"compare MODEL MODEL --input", "comparison", {"behaviour", study::behaviour_definitions()}});
  all.push_back({"series", "series", {"series", study::series_definitions()}});
  return all;
}

/// A table whose group has another name, or whose columns in CSV are not all keys of its section in JSON.
/// `columns` lists these columns; HEAD and PAIR mean the columns of a head and of two heads.
struct TableRow {
  std::string_view schema, table, group, columns = {};
};
constexpr auto kTables = std::to_array<TableRow>({
    {"analysis", "inputs", "inputs", "input position token id begin end word sequence_id side"},
    {"analysis", "texts", "inputs", "input kind text"},
    {"analysis", "metrics", ""},
    {"analysis", "heads", "metrics"},
    {"analysis", "attention_from", "attention_from", "kind key token weight"},
    {"analysis", "token_pairs", "token_circuits"},
    {"analysis", "patterns", "patterns", "query key query_token key_token"},
    {"analysis", "scores", "scores", "input HEAD query key score"},
    {"analysis", "queries", "queries", "input HEAD position dimension value"},
    {"analysis", "keys", "keys", "input component layer kv_head position dimension value"},
    {"analysis", "values", "values", "input component layer kv_head position dimension value"},
    {"analysis", "z", "z", "input HEAD position dimension value"},
    {"analysis", "output", "output", "input component layer position dimension value"},
    {"analysis", "logits", "logits", "input position token id logit"},
    {"analysis", "predictions", "logits"},
    {"analysis", "subspace_similarity", "weights", "PAIR"},
    {"analysis", "singular_values", "weights", "circuit HEAD rank singular_value"},
    {"analysis", "principal_directions", "directions", "side rank dimension value"},
    {"analysis", "circuits", "circuits", "row column"},
    {"analysis", "projection_kernel", "subspaces", "PAIR rank_a rank_b largest_cosine"},
    {"analysis", "principal_cosines", "subspaces", "projection PAIR angle cosine"},
    {"analysis", "composition", "composition", "PAIR"},
    {"analysis", "map", "map", "head name"},
    {"analysis", "linkage", "map", "similarity component layer merge first second distance size"},
    {"analysis", "rollout", "rollout", "key query_token key_token"},
    {"analysis", "rollout_last_layer", "rollout", "key query_token key_token"},
    {"analysis", "flow", "flow", "key query_token key_token"},
    {"analysis", "output_rank", "contributions"},
    {"analysis", "sink_rates", "sinks", "input heads"},
    {"study", "metrics", ""},
    {"study", "skipped", "study"},
    {"study", "heads", "metrics"},
    {"study", "distributions", "metrics"},
    {"study", "writes", "residual"},
    {"study", "massive", "residual"},
    {"study", "massive_dimensions", "residual"},
    {"study", "relations", "syntax"},
    {"study", "trees", "syntax"},
    {"study", "pairs", "pairs", "model PAIR"},
    {"study", "kept", "ablation"},
    {"study", "ablation_sentences", "ablation"},
    {"study", "causal_roles", "ablation"},
    {"patch", "paths", "patches"},
    {"attribution", "scores", "logits"},
    {"attribution", "patterns", "logits"},
    {"attribution", "pattern_heads", "logits"},
    {"attribution", "pattern_layers", "logits"},
    {"comparison", "heads", "model_changes"},
    {"comparison", "projections", "model_changes"},
    {"comparison", "weights", "model_changes"},
    {"comparison", "config", "model_changes"},
    {"comparison", "metric_changes", "behaviour"},
    {"comparison", "output", "behaviour"},
    {"comparison", "differences", "compare"},
    {"comparison", "roles", "compare"},
    {"series", "checkpoints", "series"},
    {"series", "changes", "series"},
    {"series", "role_steps", "series"},
    {"plan", "shards", "plan"},
    {"plan", "choices", "plan"},
    {"plan", "trials", "plan"},
    {"info", "summary", "summary", "part property value"},
});

/// The meaning of a column of a table, or of another name, such as that of a metric of a study.
struct Entry {
  std::size_t order = 0;  // index of its group in all_groups()
  std::string_view group;
  std::string place;
  std::string table;  // empty: not a column
  std::string column;
  std::string name;         // "positional.weight" for the column weight, if the definition has this name
  const Definition* about;  // null if the meaning is in the schema
  std::string meaning;
  bool key = false;  // of key_definitions()

  [[nodiscard]] std::string where() const {
    if (table.empty() || place.ends_with(" " + table)) return place;
    return place.substr(0, place.find(", table ")) + ", table " + table;
  }
};

bool holds(std::span<const Definition> definitions, const Definition* about) {
  return !definitions.empty() && about >= &definitions.front() && about <= &definitions.back();
}

/// Returns the definition whose name is `name`, or nullptr.
const Definition* definition_in(std::span<const Definition> definitions, std::string_view name) {
  const auto found = std::ranges::find(definitions, name, &Definition::name);
  return found == definitions.end() ? nullptr : &*found;
}

class Entries {
 public:
  Entries() {
    for (const Schema& schema : schemas()) {
      if (schema.name != "view") add_sections(schema);  // its tables are those of analyze
    }
    for (const TableRow& row : kTables) {
      const auto same = [&](const Entry& entry) {
        return entry.table == row.table && entry.order < groups_.size() &&
               groups_[entry.order].schema == row.schema;
      };
      if (std::ranges::none_of(all, same)) add_csv_columns(row);
    }
    std::vector<Entry> rest;  // names that are not columns
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const auto& [where, definitions] = groups_[i].named;
      for (const Definition& about : definitions) {
        const auto used = [&](const Entry& entry) { return entry.about == &about; };
        if (i == 0 || std::ranges::none_of(all, used))
          rest.push_back({i, where, groups_[i].place, "", "", std::string(about.name), &about,
                          std::string(about.meaning)});
      }
    }
    add_roles(rest);
    all.insert(all.end(), rest.begin(), rest.end());
    std::ranges::stable_sort(all, {}, &Entry::order);
  }

  std::vector<Entry> all;

 private:
  /// Adds each role, with the definition of its score and its rule.
  void add_roles(std::vector<Entry>& rest) const {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].named.where != "roles") continue;
      for (const study::RoleRow& row : study::role_rows()) {
        const std::string name = fmt::format("roles.{}", row.name);
        std::erase_if(rest, [&](const Entry& entry) { return entry.name == name; });
        const Definition* const score = study::definition_of(std::string(row.metric));
        rest.push_back(
            {i, "roles", groups_[i].place, "", "", name, score,
             fmt::format("score: {}; rule: {} (docs/roles.md)", score->meaning, study::rule_of(row))});
      }
    }
  }

  /// Adds the keys of the records of each section, then the other columns of its table in CSV.
  void add_sections(const Schema& schema) {
    const auto document = formats::parse_json(std::string(schema.name), schema.text);
    const std::string title = document["title"].get<std::string>().substr(sizeof("attnctl"));
    for (const auto& [name, section] : document["properties"].items()) {
      if (!section.contains("items")) continue;
      auto record = section["items"];
      if (record.contains("$ref"))
        record =
            document.at(nlohmann::ordered_json::json_pointer(record["$ref"].get<std::string>().substr(1)));
      if (!record.contains("properties")) continue;
      const auto* const row = std::ranges::find_if(kTables, [&, &table = name](const TableRow& each) {
        return each.schema == schema.name && each.table == table;
      });
      const TableRow table = row != kTables.end() ? *row : TableRow{schema.name, name, name};
      for (const auto& [key, property] : record["properties"].items())
        add(table, title.substr(0, title.find(',')), key, property.value("description", ""));
      add_csv_columns(table);
      // The CSV tables of a study begin with the path of the model.
      if (schema.name == "study" && record["properties"].contains("component")) add(table, "", "model", "");
    }
  }

  void add_csv_columns(const TableRow& table) {
    for (const std::string_view word : split(table.columns, ' ')) {
      const std::string_view names = word == "HEAD" ? "component layer head name"
                                     : word == "PAIR"
                                         ? "component layer_a head_a name_a layer_b head_b name_b"
                                         : word;
      for (const std::string_view column : split(names, ' '))
        if (!column.empty()) add(table, "", std::string(column), "");
    }
  }

  void add(const TableRow& table, const std::string& command, const std::string& column,
           const std::string& description) {
    const auto of_table = [&](const NameGroup& group) {
      return group.schema == table.schema && group.named.where == table.group;
    };
    auto group = std::ranges::find_if(groups_, of_table);
    Entry entry{groups_.size(), "", command, std::string(table.table), column, column, nullptr, description};
    const auto same = [&](const Entry& each) {
      return each.where() == entry.where() && each.column == column;
    };
    if (group != groups_.end()) {
      entry.place = group->place;
      const std::string name = entry.table + "." + column;
      const auto& definitions = group->named.definitions;
      entry.about = definition_in(definitions, name);
      if (entry.about == nullptr) entry.about = definition_in(definitions, column);
      const bool of_study = table.schema == "study" || table.schema == "plan" || table.schema == "comparison";
      if (entry.about == nullptr && of_study) entry.about = study::definition_of(name);
    }
    if (entry.about == nullptr && description.empty()) entry.about = definition_in(key_definitions(), column);
    if (group != groups_.end() && description.empty()) {
      for (std::size_t at = column.find('_'); entry.about == nullptr && at < column.size();
           at = column.find('_', at + 1))
        entry.about = definition_in(group->named.definitions, std::string_view(column).substr(at + 1));
    }
    if (entry.about != nullptr) {
      entry.key = holds(key_definitions(), entry.about);
      // A column of a table of one measure can belong to another measure: best_offset of heads.
      const auto of_definition = [&](const NameGroup& each) {
        return each.schema == table.schema && each.named.where != "study" &&
               holds(each.named.definitions, entry.about);
      };
      const auto owner = std::ranges::find_if(groups_, of_definition);
      if (owner != groups_.end()) group = owner;
      entry.meaning = entry.about->meaning;
      const std::string_view known = entry.about->name;
      if (known.ends_with("." + column)) {
        entry.name = known;
      } else if (known != column) {  // entropy_count: count of entropy
        entry.meaning =
            fmt::format("of {}: {}", column.substr(0, column.size() - known.size() - 1), entry.meaning);
      }
    }
    if (group != groups_.end()) {
      entry.order = static_cast<std::size_t>(group - groups_.begin());
      entry.group = group->named.where;
      entry.place = group->place;
    }
    if (std::ranges::none_of(all, same)) all.push_back(std::move(entry));
  }

  std::vector<NameGroup> groups_ = all_groups();
};

const std::vector<Entry>& all_entries() {
  static const Entries entries;
  return entries.all;
}

/// Adds a label of at least `width` columns and the words of a text to its right, in lines of at most 80
/// columns. The text begins on the next line if the label is wider.
void add_wrapped(std::vector<PageBlock>& page, std::string line, std::size_t width, std::string_view text) {
  if (line.size() > width) page.emplace_back(TextLine{"", std::exchange(line, "")});
  line.resize(width, ' ');
  for (const std::string_view word : split(text, ' ')) {
    if (line.size() + word.size() >= 80) {
      page.emplace_back(TextLine{"", line});
      line.assign(width, ' ');
    }
    line.append(" ").append(word);
  }
  page.emplace_back(TextLine{"", line});
}

/// Returns the entries of the analysis, measure, experiment or table `name`, in `whole`; the others that have
/// this name, or only those of the column, if the name is TABLE.COLUMN, in `named`.
void select_entries(const std::string& name, std::vector<const Entry*>& whole,
                    std::vector<const Entry*>& named) {
  for (const Entry& entry : all_entries())
    if (!entry.table.empty() && entry.table + "." + entry.column == name) named.push_back(&entry);
  if (!named.empty()) return;
  for (const Entry& entry : all_entries()) {
    if (!name.empty() && (entry.group == name || entry.table == name)) {
      whole.push_back(&entry);
    } else if (!entry.key && (name.empty() || ("." + entry.name).ends_with("." + name))) {
      named.push_back(&entry);
    }
  }
}

/// Returns the entries of a name. Equal meanings of one name in several places are one row. An empty name
/// selects all entries; the text then has only their names.
Results explained(const std::string& name) {
  std::vector<const Entry*> whole, named;
  select_entries(name, whole, named);
  if (whole.empty() && named.empty())
    fail(Status::usage, "explain: unknown name \"{}\"{}; run attnctl explain for a list of all names",
         escaped(name), did_you_mean(name, explained_names()));
  Results results;
  std::vector<PageBlock>& page = results.text;
  const auto add_title = [&page](std::string_view title) {
    if (!page.empty()) page.emplace_back(TextLine{""});
    page.emplace_back(TextLine{std::string(title)});
  };
  using Texts = std::array<std::string, kFields.size()>;
  const auto texts_of_entry = [](const Entry& entry) {
    constexpr Definition kNone{};
    const Definition& about = entry.about != nullptr ? *entry.about : kNone;
    return Texts{entry.where(),           entry.name,    std::string(about.unit),  std::string(about.range),
                 std::string(about.null), entry.meaning, std::string(about.source)};
  };
  std::vector<Texts> all;
  const auto add_whole = [&] {
    for (const Entry* const entry : whole) {
      if (all.empty() || all.back()[0] != entry->where()) add_title(entry->where());
      all.push_back(texts_of_entry(*entry));
      add_wrapped(page, "  " + (entry->column.empty() ? entry->name : entry->column), 22, entry->meaning);
    }
  };
  // A table of no analysis or measure, such as `rows` of bench, comes after the columns with its name.
  const bool whole_last = !whole.empty() && whole.front()->group.empty();
  if (!whole_last) add_whole();
  const std::size_t blocks = all.size();
  for (const Entry* const entry : named) {
    const Texts texts = texts_of_entry(*entry);
    const auto same = std::ranges::find_if(
        all.begin() + static_cast<std::ptrdiff_t>(blocks), all.end(),
        [&](const Texts& each) { return std::equal(each.begin() + 1, each.end(), texts.begin() + 1); });
    if (same == all.end()) {
      all.push_back(texts);
    } else if ((*same)[0] != texts[0]) {
      (*same)[0] += "; " + texts[0];
    }
  }
  for (std::size_t i = blocks; i < all.size() && !name.empty(); ++i) {
    add_title(all[i][1]);
    for (std::size_t field = 0; field < kFields.size(); ++field)
      if (kFields[field] != "name" && !all[i][field].empty())
        add_wrapped(page, fmt::format("  {}", kFields[field]), 10, all[i][field]);
  }
  for (std::size_t i = 0; i < named.size() && name.empty();) {
    const std::string& place = named[i]->place;
    std::vector<std::string> names;
    for (; i < named.size() && named[i]->place == place; ++i)
      if (std::ranges::find(names, named[i]->name) == names.end()) names.push_back(named[i]->name);
    add_wrapped(page, place, 32, fmt::format("{}", fmt::join(names, ", ")));
  }
  if (whole_last) add_whole();
  std::vector<std::vector<Cell>> rows;
  for (const Texts& texts : all)
    std::ranges::transform(texts, std::back_inserter(rows.emplace_back()), study::text_cell);
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
  for (const Entry& entry : all_entries()) {
    const std::string_view name = entry.name;
    names.insert({entry.group, entry.table, name, name.substr(name.rfind('.') + 1)});
  }
  names.erase("");
  return {names.begin(), names.end()};
}

std::vector<std::string> plot_names(std::string_view command) {
  const bool analysis = command == "analyze" || command == "weights" || command == "view";
  const std::vector<std::string> includes =
      inspect::include_names(command == "weights" ? inspect::Given::weights
                             : command == "view"  ? inspect::Given::patterns
                                                  : inspect::Given::inputs);
  std::map<std::string, std::vector<const Entry*>> tables;
  for (const Entry& entry : all_entries())
    if (entry.where().starts_with(analysis ? "analyze" : "study")) tables[entry.table].push_back(&entry);
  // The heads of `weights` have only ranks, those of `view` have none.
  const auto left_out = [&](const std::string& column) {
    const bool rank = column.ends_with("_rank");
    return command == "weights" ? !rank : command == "view" && rank;
  };
  std::set<std::string> names;
  for (const auto& [table, entries] : tables) {
    const auto has = [&list = entries](const char* name) {
      return std::ranges::find(list, name, &Entry::column) != list.end();
    };
    const bool heads = table == "heads";
    if (!has("layer") || !has("head") || has("query") || has("dimension") || has("rank") || has("row"))
      continue;
    if (analysis && !heads && std::ranges::find(includes, table) == includes.end()) continue;
    for (const Entry* const entry : entries) {
      const std::string& column = entry->column;
      // The range of a number is an interval; offset, position, first and last identify a row.
      if (entry->key || entry->about == nullptr || column == "offset" || column == "position" ||
          column == "first" || column == "last" || (heads && left_out(column)) ||
          entry->about->range.find_first_of("[(") != 0)
        continue;
      names.insert(heads ? column : fmt::format("{}.{}", table, column));
    }
  }
  return {names.begin(), names.end()};
}

Command explain_command() {
  Command command{.name = "explain", .about = "Print what a column, metric, measure or analysis means"};
  auto name = std::make_shared<std::string>();
  auto options = std::make_shared<CommandOptions>();
  command.add({{"NAME", name.get(),
                "Column, TABLE.COLUMN, metric or role; or table, analysis, measure or experiment, for the "
                "meanings of all its columns (default: list all names)"}});
  options->output.default_format = "text";
  options->output.default_table = "definitions";
  add_target_options(command, options->output, {"json", "jsonl", "csv", "text"});
  command.footer =
      "Examples:\n  attnctl explain\n  attnctl explain confidence\n  attnctl explain relations.accuracy\n"
      "  attnctl explain syntactic\n"
      "  attnctl explain pairs --format json | jq '.definitions[0].meaning'";
  command.action = [name, options] {
    const Target target = resolve_target(options->output, {});
    Session session(options->run);
    ResultWriter(target, options->output, session).write("attnctl.definitions/2", explained(*name));
    print_warnings(session);
  };
  return command;
}

}  // namespace attnctl::cli
