#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "base/files/input_file.hpp"
#include "cli/commands.hpp"
#include "cli/commands/study.hpp"
#include "formats/json.hpp"
#include "study/ablation.hpp"
#include "study/greedy_order.hpp"

namespace attnctl::cli {
namespace {

constexpr std::size_t kLargestDocument = std::size_t{1} << 28;
const std::vector<std::string> kSetKinds = {"head", "pair", "layer", "mlp", "group", "keep"};

/// Returns the heads of a list of names. `where` names the list in errors.
std::vector<model::HeadId> named_heads(const std::vector<std::string>& names, const std::string& where,
                                       const model::ModelConfig& config) {
  if (names.empty()) fail(Status::usage, "{}: got no heads; need a list of heads such as \"0.1\"", where);
  return inspect::select_heads({.component = "",
                                .layers = "",
                                .heads = fmt::format("{}", fmt::join(names, ",")),
                                .option = where},
                               config)
      .heads;
}

nlohmann::ordered_json read_document(const std::string& path) {
  return formats::parse_json(escaped(path), read_file(path, kLargestDocument));
}

/// Returns the rows of a list of records in a document, such as "roles".
const nlohmann::ordered_json* rows_of(const nlohmann::ordered_json& document, const std::string& table) {
  const auto found = document.is_object() ? document.find(table) : document.end();
  return found != document.end() && found->is_array() ? &*found : nullptr;
}

/// Returns the groups of --groups FILE: an object of lists of heads, or the roles of a study.
std::vector<study::NamedHeads> read_groups(const std::string& path, const model::ModelConfig& config) {
  const nlohmann::ordered_json document = read_document(path);
  std::vector<std::pair<std::string, std::vector<std::string>>> named;
  if (const auto* const roles = rows_of(document, "roles")) {
    std::map<std::string, std::size_t> places;
    for (const auto& row : *roles) {
      if (!row.is_object() || !row.contains("role") || !row["role"].is_string() || !row.contains("name"))
        continue;
      const auto role = row["role"].get<std::string>();
      const auto [place, added] = places.try_emplace(role, named.size());
      if (added) named.emplace_back(role, std::vector<std::string>());
      const auto head = row["name"].get<std::string>();
      std::vector<std::string>& heads = named[place->second].second;
      if (std::ranges::find(heads, head) == heads.end()) heads.push_back(head);
    }
  } else if (document.is_object() && document.contains("schema")) {
    fail(Status::bad_input,
         "{}: the document has no list \"roles\"; need the JSON document of attnctl study with the measure "
         "roles, or {{\"NAME\": [\"0.1\", \"2.3\"]}}",
         escaped(path));
  } else if (document.is_object()) {
    for (const auto& [name, list] : document.items()) {
      const auto is_text = [](const auto& item) { return item.is_string(); };
      if (!list.is_array() || !std::ranges::all_of(list, is_text)) {
        fail(
            Status::bad_input,
            "{}: /{}: need a list of heads such as [\"0.1\", \"2.3\"], or the JSON document of attnctl study "
            "with the measure roles",
            escaped(path), shown(name));
      }
      named.emplace_back(name, list.template get<std::vector<std::string>>());
    }
  }
  if (named.empty())
    fail(Status::bad_input,
         "{}: the file has no groups; need {{\"NAME\": [\"0.1\", \"2.3\"]}}, or the JSON document of attnctl "
         "study with the measure roles",
         escaped(path));
  std::vector<study::NamedHeads> groups;
  for (const auto& [name, heads] : named)
    groups.push_back({name, named_heads(heads, fmt::format("{}: {}", escaped(path), shown(name)), config)});
  return groups;
}

/// The numbers of heads in the lists of a document, by the name of the column, then by the head.
using HeadNumbers = std::map<std::string, std::map<std::string, double>>;

/// Adds the columns of a list of records that have one number per head. Keeps the columns of earlier lists.
void add_numbers(const nlohmann::ordered_json& rows, HeadNumbers& numbers) {
  HeadNumbers found;
  std::set<std::string> repeated;  // columns with several numbers of one head
  for (const auto& row : rows) {
    if (!row.is_object() || !row.contains("name") || !row["name"].is_string()) continue;
    const auto head = row["name"].get<std::string>();
    for (const auto& [column, value] : row.items())
      if (value.is_number() && !found[column].emplace(head, value.template get<double>()).second)
        repeated.insert(column);
  }
  for (auto& [column, values] : found)
    if (!repeated.contains(column)) numbers.try_emplace(column, std::move(values));
}

/// Returns the selected heads in the order of --order FILE:COLUMN: a column of the list `heads` or `ablation`
/// of a document, from the largest value to the smallest. Heads without a value come last.
std::vector<model::HeadId> read_order(const std::string& given, const model::ModelConfig& config,
                                      const forward::Selection& selection) {
  const std::size_t colon = given.rfind(':');
  if (colon == std::string::npos || colon + 1 == given.size())
    fail(Status::usage, "--order: got {}, need FILE:COLUMN, such as heads.json:loss_change, or greedy",
         in_quotes(given));
  const std::string path = given.substr(0, colon), column = given.substr(colon + 1);
  const nlohmann::ordered_json document = read_document(path);
  HeadNumbers numbers;
  for (const char* const table : {"heads", "ablation", "probe_ablation"})
    if (const auto* const rows = rows_of(document, table)) add_numbers(*rows, numbers);
  if (numbers.empty())
    fail(Status::bad_input,
         "{}: the document has no list \"heads\" with a number per head; need the JSON of attnctl analyze, "
         "weights, study or ablate",
         escaped(path));
  const auto values = numbers.find(column);
  if (values == numbers.end()) {
    const auto name = [](const auto& each) { return std::string_view(each.first); };
    fail(Status::bad_input, "{}: no head has a number in the column {}{}; need one of {}", escaped(path),
         in_quotes(column), did_you_mean(column, numbers, name), escaped(join_texts(numbers, name)));
  }
  std::vector<model::HeadId> order = selection.heads;
  const auto value_of = [&](model::HeadId id) {
    const auto found = values->second.find(model::head_name(config, id));
    return found == values->second.end() ? -std::numeric_limits<double>::infinity() : found->second;
  };
  std::ranges::stable_sort(order, std::ranges::greater(), value_of);
  return order;
}

/// Returns FILE of --order greedy:FILE; "" for --order greedy; nullopt for other orders.
std::optional<std::string> greedy_texts(const std::string& order) {
  const std::string name = "greedy";
  if (order == name) return "";
  if (!order.starts_with(name + ":")) return std::nullopt;
  if (order.size() == name.size() + 1)
    fail(Status::usage, "--order: got {}, need greedy or greedy:FILE", in_quotes(order));
  return order.substr(name.size() + 1);
}

void add_ablation_options(Command& command, AblationOptions& options) {
  Option steps =
      number("--steps", &options.steps, "For --sets keep: number of sets, from no head kept on", positive());
  steps.needs = "--order";
  command.add(
      "Removal",
      {choice("--replace", options.replacement, {"zero", "mean", "resample"},
              "What takes the place of the output z of a removed head, or of the output of a removed MLP: 0; "
              "its mean over the corpus; or its values in another, randomly chosen input (default: mean)"),
       {.names = "--mean-from",
        .target = &options.mean_from,
        .help = "For --replace mean and resample: files of texts to use instead of the corpus",
        .type = "FILE"},
       {"--by-position", &options.by_position,
        "For --replace mean: use a mean for each position instead of one for all positions"},
       {.names = "--sets",
        .target = &options.sets,
        .help =
            "What is removed: each head; each pair of heads; all heads of each layer; each MLP; each group "
            "of --groups; or all heads except for the first ones of --order (keep)",
        .type = "LIST",
        .show_default = true,
        .split = true,
        .allowed = kSetKinds},
       {"--groups", &options.groups,
        "Groups of heads to remove together: a JSON file {\"NAME\": [\"0.1\", \"2.3\"]}, or the JSON "
        "document "
        "of attnctl study, whose roles are the groups; adds group to --sets",
        "FILE"},
       {"--order", &options.order,
        "Order of the heads for --sets keep: a JSON document of attnctl and a column of its heads, such as "
        "heads.json:loss_change or heads.json:importance, the head with the largest value is kept longest; "
        "or greedy, which removes one head after the other, each time the one without which the loss on the "
        "corpus (with greedy:FILE: on these texts) is smallest; adds keep to --sets",
        "FILE:COLUMN|greedy[:FILE]"},
       steps,
       number("--null-sets", &options.null_sets,
              "Number of random sets with which each layer, group and step of keep is compared",
              Range{0, 10'000}),
       number("--mask-rate", &options.mask_rate,
              "For models that predict masked tokens: share of the tokens of a sentence that are masked and "
              "scored, at least one (default: 0.15)",
              Range{0.0, 1.0}),
       {.names = "--answer",
        .target = &options.answer,
        .help = "Also measure the change of the logit of this token minus that of --wrong, at the last token "
                "of each sentence, or at its mask token",
        .type = "TOKEN",
        .needs = "--wrong"},
       {.names = "--wrong",
        .target = &options.wrong,
        .help = "The token with which --answer is compared",
        .type = "TOKEN",
        .needs = "--answer"}});
}

}  // namespace

std::vector<std::filesystem::path> ablation_files(const AblationOptions& options) {
  std::vector<std::filesystem::path> files(options.mean_from.begin(), options.mean_from.end());
  if (!options.groups.empty()) files.emplace_back(options.groups);
  if (const std::string texts = greedy_texts(options.order).value_or(""); !texts.empty())
    files.emplace_back(texts);
  if (!options.order.empty() && !greedy_texts(options.order))
    files.emplace_back(options.order.substr(0, options.order.rfind(':')));
  return files;
}

void order_greedily(const StudyScope& scope, OpenStudy& study, Session& session) {
  const std::optional<std::string> texts = greedy_texts(scope.ablation.order);
  if (!texts) return;
  study::StudySettings settings = study.settings;
  if (!texts->empty())
    settings.corpus.files = {{*texts, input_format(*texts, scope.inputs), version_of_file(*texts)}};
  else if (reads_standard_input(scope))
    fail(Status::usage, "--input -: --order greedy reads the corpus several times; give a file");
  const std::vector<model::HeadId> order = study::greedy_order(
      {settings, study.open.model, study.open.vocabulary, study.open.encoder, study.memory, study.used},
      session.pool, session.progress);
  study.settings.ablation = ablation_settings(scope, study.open, study.settings.selection, order);
}

study::AblationSettings ablation_settings(const StudyScope& scope, OpenModel& open,
                                          const forward::Selection& selection,
                                          const std::vector<model::HeadId>& greedy) {
  const AblationOptions& options = scope.ablation;
  const model::ModelConfig& config = open.model.config();
  study::SetRequest request{.kinds = options.sets,
                            .groups = {},
                            .order = {},
                            .steps = options.steps,
                            .null_sets = options.null_sets,
                            .seed = scope.settings.seed};
  const auto use = [&](const char* kind, const std::string& option, const char* name) {
    const bool listed = std::ranges::find(request.kinds, kind) != request.kinds.end();
    if (listed && option.empty()) fail(Status::usage, "--sets {}: needs {}", kind, name);
    if (!listed && !option.empty()) request.kinds.emplace_back(kind);
    return !option.empty();
  };
  if (use("group", options.groups, "--groups FILE")) request.groups = read_groups(options.groups, config);
  if (use("keep", options.order, "--order FILE:COLUMN or --order greedy"))
    request.order = greedy_texts(options.order) ? greedy : read_order(options.order, config, selection);
  if (options.by_position && options.replacement != study::Replacement::mean)
    fail(Status::usage, "--by-position: only --replace mean uses it; remove one of the two");
  if (!options.mean_from.empty() && options.replacement == study::Replacement::zero)
    fail(Status::usage, "--mean-from: --replace zero uses no corpus; remove one of the two");
  study::AblationSettings settings{.replacement = options.replacement,
                                   .by_position = options.by_position,
                                   .mean_from = {},
                                   .sets = study::removed_sets(config, selection, request),
                                   .answer = {}};
  if (options.mask_rate && config.layers.back().attention.causal)
    fail(Status::usage,
         "--mask-rate: the model predicts next tokens, so no tokens are masked; remove the option");
  settings.mask_rate = options.mask_rate.value_or(settings.mask_rate);
  for (const std::string& path : options.mean_from)
    settings.mean_from.push_back({path, input_format(path, scope.inputs), version_of_file(path)});
  if (options.answer)
    settings.answer = causal::AnswerTokens{answer_token("--answer", *options.answer, open),
                                           answer_token("--wrong", *options.wrong, open)};
  return settings;
}

Command ablate_command() {
  Command command{.name = "ablate", .about = "Remove heads and measure what the model then predicts worse"};
  struct AblateOptions : StudyOptions {
    bool probe = false;
  };
  auto options = std::make_shared<AblateOptions>();
  add_model_options(command, options->model);
  add_corpus_scope(command, *options);
  add_ablation_options(command, options->ablation);
  command.add(
      "Removal",
      {{"--probe", &options->probe,
        "Also measure the change of the loss on random tokens that are repeated, which a model can "
        "only predict by copying"},
       number("--seed", &options->settings.seed,
              "Seed of the random sets, of the masked tokens, of the chosen inputs and of intervals")});
  add_shard_options(command, *options);
  add_result_options(command, *options);
  command.add("Run", {memory_option(options->run, kMemoryHelp)});
  command.footer =
      "docs/causal.md explains the results and their limits.\n"
      "Examples:\n"
      "  attnctl ablate data/tiny-llama --input data/tiny-llama/sentences.jsonl --format text\n"
      "  attnctl ablate data/tiny-llama --input data/tiny-llama/sentences.jsonl --probe --replace zero | jq "
      "'.probe_ablation[0].loss_change'\n"
      "  attnctl ablate data/tiny-bert --input data/tiny-bert/sentences.jsonl --sets layer,mlp --format csv "
      "--table ablation";
  command.action = [options] {
    options->measures = options->probe ? "ablation,probe_ablation" : "ablation";
    run_study_command(*options);
  };
  return command;
}

}  // namespace attnctl::cli
