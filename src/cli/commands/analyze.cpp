#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/options/analysis_request.hpp"
#include "cli/options/attention_choice.hpp"
#include "cli/options/choice.hpp"

namespace attnctl::cli {
namespace {

/// Parses "none", or ranks separated by commas.
void parse_output_ranks(const std::string& list, AnalysisRequest& request) {
  request.output_rank = list != "none";
  request.output_ranks.clear();
  if (!request.output_rank) return;
  for (const std::string_view word : split(list, ',')) {
    const auto rank = parse_number(word);
    if (!rank || *rank == 0) {
      fail(Status::usage, "--output-rank: \"{}\" is not a list of ranks from 1 on, nor \"none\"",
           escaped(list));
    }
    request.output_ranks.push_back(*rank);
  }
}

/// Adds the options for the weighting of patterns, and for rollout, flow and contributions.
void add_mixing_options(CLI::App& command, AnalysisRequest& request) {
  const std::string group = "Mixing";
  command
      .add_option(
          "--weighting", request.weighting,
          "patterns that are shown: weights, norms |weight f(x)|, or those with rows made to sum to 1")
      ->type_name("weights|norm|norm-row")
      ->transform(choice<Weighting>(
          {{"weights", Weighting::weights}, {"norm", Weighting::norm}, {"norm-row", Weighting::norm_row}}))
      ->group(group);
  command
      .add_option("--rollout-fusion", request.rollout.fusion,
                  "how rollout and flow join the heads of a layer")
      ->type_name("mean|max|min")
      ->transform(choice<HeadFusion>(
          {{"mean", HeadFusion::mean}, {"max", HeadFusion::max}, {"min", HeadFusion::min}}))
      ->group(group);
  command
      .add_option("--rollout-residual", request.rollout.residual,
                  "weight of the residual in rollout and flow, 0 to 1 (default 0.5)")
      ->type_name("W")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  command
      .add_option("--rollout-from", request.rollout_from,
                  "rollout and flow from this token of the last layer alone: a word, word#2, or a position")
      ->type_name("TOKEN")
      ->group(group);
  command
      .add_option_function<std::string>(
          "--output-rank", [&request](const std::string& list) { parse_output_ranks(list, request); },
          "ranks that contributions cut W_O to (default 1,2,4,...), or none")
      ->type_name("RANKS|none")
      ->group(group);
}

}  // namespace

void add_analyze(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("analyze", "Patterns, metrics of every head, and weights analyses");
  auto request = std::make_shared<AnalysisRequest>();
  add_model_options(*command, request->model);
  add_input_options(*command, request->inputs);
  add_selection_options(*command, request->selection, "metrics,patterns,weights");
  add_attention_option(*command, request->selection);
  const std::string group = "Selection";
  command->add_flag("--per-input", request->selection.per_input, "metrics of each input, not of all together")
      ->group(group);
  command
      ->add_option("--from", request->from,
                   "what this token looks at in every head: a word, word#2, or a position")
      ->type_name("TOKEN")
      ->group(group);
  command->add_option("--to", request->to, "with --from: the weight on these")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("TOKENS")
      ->group(group);
  command
      ->add_option("--show", request->show,
                   "draw the pattern of a head (3.1), or of all heads of a layer (3), their mean first")
      ->type_name("HEAD")
      ->group(group);
  command
      ->add_flag("--by-word", request->by_word, "words in the place of tokens, in every result of patterns")
      ->group(group);
  command
      ->add_option("--pool-from", request->pool_from,
                   "with --by-word: attention from a word is the mean of its pieces', or the first one's")
      ->type_name("mean|first")
      ->transform(choice<PoolFrom>({{"mean", PoolFrom::mean}, {"first", PoolFrom::first}}))
      ->group(group);
  add_mixing_options(*command, *request);
  add_output_options(*command, request->output);
  add_run_options(*command, request->run);
  command->footer(
      "Examples:\n"
      "  attnctl analyze data/tiny-bert --text \"The cat sat because it was tired.\" --from it --to "
      "cat,tired\n"
      "  attnctl analyze data/tiny-bert --text \"The cat didn't sit down.\" --by-word --show 0.3\n"
      "  attnctl analyze data/attention-demo.json --input data/sentences.jsonl --from it --to animal,tired\n"
      "  attnctl analyze data/tiny-bert --text \"The cat sat because it was tired.\" --include rollout,flow "
      "--rollout-from it\n"
      "  attnctl analyze data/tiny-llama --ids 5,6,7,8 | jq '.heads[0]'\n"
      "  printf 'One line.\\nAnother.\\n' | attnctl analyze data/tiny-llama --input - --input-format txt\n"
      "  attnctl analyze data/tiny-bert --input data/tiny-bert/sentences.jsonl --include metrics --format "
      "text --sort "
      "next_token --top 3\n"
      "  attnctl analyze data/tiny-llama --ids 5,6,7,8 --layers 0,2-3 -o patterns.npz\n"
      "  attnctl analyze data/tiny-llama --ids 5,6,7,8 --format csv -o tables");
  command->callback([&action, request, command] {
    request->include_given = command->count("--include") > 0;
    action = [request] { run_analysis(*request); };
  });
}

}  // namespace attnctl::cli
