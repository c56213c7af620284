#include "inspect/patch.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "causal/patching.hpp"
#include "cli/commands.hpp"
#include "cli/options/inputs.hpp"
#include "cli/session.hpp"

namespace attnctl::cli {
namespace {

struct PatchOptions : CommandOptions {
  SingleInput clean = {.name = "clean"}, corrupt = {.name = "corrupt"};
  SingleInput target = {.name = "target"}, corrupt_target = {.name = "corrupt-target"};
  std::optional<std::string> answer, wrong;
  std::vector<std::string> parts = {"z"};
  std::vector<std::string> paths;
  std::string into = "corrupt";
  bool by_position = false;
};

/// Returns the two heads of a path "0.1->2.3" or "0.1:2.3".
std::pair<model::HeadId, model::HeadId> parse_path(const std::string& text,
                                                   const model::ModelConfig& config) {
  const bool colon = text.find("->") == std::string::npos && std::ranges::count(text, ':') == 1;
  const std::size_t arrow = text.find(colon ? ":" : "->");
  if (arrow == std::string::npos)
    fail(Status::usage,
         "--path {}: need FROM:TO, such as 0.1:2.3, or FROM->TO in quotes, such as '0.1->2.3', because the "
         "shell takes what follows > as the name of a file",
         escaped(text));
  const auto head = [&](const std::string& name) {
    const auto heads =
        inspect::select_heads({.component = "", .layers = "", .heads = name, .option = "--path"}, config)
            .heads;
    if (heads.size() != 1) fail(Status::usage, "--path {}: need one head on each side", escaped(text));
    return heads.front();
  };
  const std::pair path = {head(text.substr(0, arrow)), head(text.substr(arrow + (colon ? 1 : 2)))};
  if (path.first.layer >= path.second.layer)
    fail(Status::usage, "--path {}: need a head and a head of a later layer", escaped(text));
  if (causal::path_inputs(config, path.first, path.second).empty())
    fail(Status::usage,
         "--path {}: self-attention of the decoder does not read what the encoder writes; need a head of "
         "cross-attention, such as {}",
         escaped(text), model::head_name(config, {path.second.layer + 1, 0}));
  return path;
}

void patch(const PatchOptions& options) {
  const Target target = resolve_target(options.output, files_read(options));
  Session session(options.run);
  OpenModel open = open_model(options.model, session.warnings);
  const model::ModelConfig& config = open.model.config();
  inspect::PatchRequest request{
      .clean = single_input(options.clean, options.target, open),
      .corrupt = single_input(options.corrupt,
                              options.corrupt_target.given() ? options.corrupt_target : options.target, open),
      .selection = inspect::select_heads(options.selection, config),
      .parts = {},
      .by_position = options.by_position,
      .into_clean = options.into == "clean"};
  for (const inspect::PatchedPart part :
       {inspect::PatchedPart::z, inspect::PatchedPart::pattern, inspect::PatchedPart::value})
    if (std::ranges::count(options.parts, name_of(part)) > 0) request.parts.push_back(part);
  if (options.answer)
    request.answer = causal::AnswerTokens{answer_token("--answer", *options.answer, open),
                                          answer_token("--wrong", *options.wrong, open)};
  for (const std::string& path : options.paths) request.paths.push_back(parse_path(path, config));
  request.memory = options.run.memory;
  ResultWriter writer(target, options.output, session);
  forward::RunContext context = session.context();
  context.progress = nullptr;  // many short passes
  Results results = inspect::patch_heads(request, open, context);
  open.encoder.checks.warn(session.warnings);
  writer.write("attnctl.patch/2", std::move(results));
  print_warnings(session);
}

}  // namespace

Command patch_command() {
  Command command{.name = "patch",
                  .about = "Put parts of heads from one run into another and measure what that restores"};
  auto options = std::make_shared<PatchOptions>();
  add_model_options(command, options->model);
  const std::vector<std::string> parts = {"z", "pattern", "value"};
  command.add(
      "Inputs",
      {{"--clean", &options->clean.text, "Text that the model answers rightly", "TEXT"},
       {"--corrupt", &options->corrupt.text,
        "The same text with a change that changes the answer; as many tokens", "TEXT"},
       {"--clean-ids", &options->clean.ids, "Token ids to use instead of --clean, such as 1,15,27", "IDS"},
       {"--corrupt-ids", &options->corrupt.ids, "Token ids to use instead of --corrupt", "IDS"}});
  add_target_input_options(command, options->target);
  command.add("Inputs",
              {{"--corrupt-target-text", &options->corrupt_target.text,
                "Target for --corrupt (default: that of --clean); as many tokens", "TEXT"},
               {"--corrupt-target-ids", &options->corrupt_target.ids,
                "Token ids to use instead of --corrupt-target-text", "IDS"},
               {.names = "--answer",
                .target = &options->answer,
                .help = "The right answer: one token (default: the most probable token of the clean run)",
                .type = "TOKEN",
                .needs = "--wrong"},
               {.names = "--wrong",
                .target = &options->wrong,
                .help = "The wrong answer (default: the most probable token of the corrupt run)",
                .type = "TOKEN",
                .needs = "--answer"}});
  add_head_options(command, options->selection);
  command.add(
      "Patches",
      {{.names = "--parts",
        .target = &options->parts,
        .help =
            "Parts of a head to patch: its output z, its pattern (with its own values), or its values (with "
            "its own pattern)",
        .type = "LIST",
        .show_default = true,
        .split = true,
        .allowed = parts},
       {"--by-position", &options->by_position, "Also patch z at each position separately"},
       {.names = "--into",
        .target = &options->into,
        .help = "The run that receives the parts of the other one",
        .type = "corrupt|clean",
        .show_default = true,
        .allowed = {"corrupt", "clean"}},
       {.names = "--path",
        .target = &options->paths,
        .help = "Patch the z of head FROM only for the queries, the keys or the values of head TO of a "
                "later layer, such as 0.1:2.3 or '0.1->2.3'",
        .type = "FROM:TO"}});
  options->output.default_table = "patches";
  add_document_options(command, options->output, {"json", "jsonl", "csv", "svg", "png", "pdf", "text"});
  add_table_option(command, options->output, "patches,paths");
  add_worker_options(command, options->run);
  command.add("Run", {memory_option(options->run, kMemoryHelp)});
  const std::string texts =
      "--clean \"one cat and one cat and one\" --corrupt \"one house and one house and one\"";
  command.footer =
      "docs/causal.md explains the results and their limits.\nExamples:\n  attnctl patch data/tiny-llama " +
      texts + " --format text\n  attnctl patch data/tiny-llama " + texts +
      " --path '1.0->2.1' | jq '.paths[2].effect'";
  command.action = [options] { patch(*options); };
  return command;
}

}  // namespace attnctl::cli
