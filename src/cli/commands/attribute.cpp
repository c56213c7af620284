#include "inspect/attribute.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/options/inputs.hpp"
#include "cli/session.hpp"

namespace attnctl::cli {
namespace {

struct AttributeOptions : CommandOptions {
  SingleInput input = {.name = "text"}, target = {.name = "target"};
  std::optional<std::size_t> position;
  std::vector<std::string> tokens, scores;
  std::optional<std::string> patterns;
  std::size_t steps = 20;
};

/// Returns the head, the query and the key of "3.1:12:5".
inspect::ScoreChoice parse_score(const std::string& text, const model::ModelConfig& config) {
  const std::vector<std::string_view> parts = split(text, ':');
  const auto query = parts.size() == 3 ? parse_number(parts[1]) : std::nullopt;
  const auto key = parts.size() == 3 ? parse_number(parts[2]) : std::nullopt;
  if (!query || !key) fail(Status::usage, "--score {}: need HEAD:QUERY:KEY, such as 3.1:12:5", escaped(text));
  const auto heads =
      inspect::select_heads(
          {.component = "", .layers = "", .heads = std::string(parts[0]), .option = "--score"}, config)
          .heads;
  if (heads.size() != 1) fail(Status::usage, "--score {}: need one head", escaped(text));
  return {heads.front(), static_cast<std::size_t>(*query), static_cast<std::size_t>(*key)};
}

void attribute(const AttributeOptions& options) {
  const Target target = resolve_target(options.output, files_read(options));
  Session session(options.run);
  OpenModel open = open_model(options.model, session.warnings);
  inspect::AttributeRequest request{.input = single_input(options.input, options.target, open),
                                    .position = options.position};
  for (const std::string& token : options.tokens)
    request.tokens.push_back(answer_token("--token", token, open));
  for (const std::string& score : options.scores)
    request.scores.push_back(parse_score(score, open.model.config()));
  if (options.patterns)
    request.patterns = inspect::select_heads(
        {.component = "", .layers = "", .heads = *options.patterns, .option = "--patterns"},
        open.model.config());
  request.steps = options.steps;
  request.memory = options.run.memory;
  ResultWriter writer(target, options.output, session);
  forward::RunContext context = session.context();
  context.progress = nullptr;  // short passes
  Results results = inspect::attribute(request, open, context);
  open.encoder.checks.warn(session.warnings);
  writer.write("attnctl.attribution/2", std::move(results));
  print_warnings(session);
}

}  // namespace

Command attribute_command() {
  Command command{.name = "attribute",
                  .about = "Write logits and attention scores as exact sums over heads, MLPs and embeddings"};
  auto options = std::make_shared<AttributeOptions>();
  add_model_options(command, options->model);
  command.add("Inputs", {{"--text", &options->input.text, "The text whose prediction is explained", "TEXT"},
                         {"--text-ids", &options->input.ids,
                          "Token ids to use instead of --text, such as 1,15,27", "IDS"}});
  add_target_input_options(command, options->target);
  Option steps = number("--steps", &options->steps, "Steps of the integrals of --patterns", positive());
  steps.needs = "--patterns";
  command.add(
      "Inputs",
      {number(
           "--position", &options->position,
           "Position whose prediction is explained, in the target if there is one (default: the mask token, "
           "or the last token)",
           non_negative()),
       {"--token", &options->tokens,
        "Token whose logit is explained (default: the most probable token); may be given several times",
        "TOKEN"},
       {"--score", &options->scores,
        "Also explain the attention score of a head from a query to a key, such as 3.1:12:5; may be given "
        "several "
        "times",
        "HEAD:QUERY:KEY"},
       {"--patterns", &options->patterns,
        "Also explain the patterns of these heads, such as 3.1,3.2: what each weight adds to the logarithm "
        "of the first token's probability (integrated gradients); pictures then show these parts",
        "HEADS"},
       steps});
  options->output.default_table = "logits";
  add_document_options(command, options->output, {"json", "jsonl", "csv", "svg", "png", "pdf", "text"});
  add_table_option(command, options->output, "logits,scores,patterns,pattern_heads,pattern_layers");
  add_worker_options(command, options->run);
  command.add("Run", {memory_option(options->run, kMemoryHelp)});
  command.footer =
      "docs/causal.md explains the results and their limits.\n"
      "Examples:\n"
      "  attnctl attribute data/tiny-llama --text \"one cat and one cat and one\" --format text\n"
      "  attnctl attribute data/tiny-llama --text \"one cat and one cat and one\" --score 3.1:7:2 | jq "
      "'.scores[0]'\n"
      "  attnctl attribute data/tiny-llama --text \"one cat and one cat and one\" --patterns 3.1 --format "
      "text";
  command.action = [options] { attribute(*options); };
  return command;
}

}  // namespace attnctl::cli
