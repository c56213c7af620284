#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/experiments/experiments.hpp"
#include "cli/options/inputs.hpp"
#include "textbook/positions.hpp"

namespace attnctl::cli {
namespace {

constexpr std::size_t kMostOfAModel = 512;  // default limit of positions with --model

struct Request {
  PositionsOptions options;
  std::optional<std::size_t> positions, d;
  ModelOptions model;
};

ExperimentResult run(Request request, Session& session) {
  PositionsOptions& options = request.options;
  std::optional<OpenModel> open;
  if (!request.model.model.empty()) {
    open = open_model(request.model, session.warnings);
    const ModelConfig& config = open->model.config();
    options.model = &open->model;
    options.positions = std::min(kMostOfAModel, config.max_positions.value_or(kMostOfAModel));
    options.d = config.embedding.width;
  }
  if (request.positions) options.positions = *request.positions;
  if (request.d) options.d = *request.d;
  return positions_experiment(options, session.pool);
}

}  // namespace

Experiment add_positions(CLI::App& command) {
  auto request = std::make_shared<Request>();
  command
      .add_option("--positions", request->positions, "how many (default: 64, or what --model has up to 512)")
      ->check(CLI::Range(2, 4096));
  command.add_option("--d", request->d, "width of the sinusoidal ones, even (default: 64, or --model's)")
      ->check(CLI::Range(2, 16384));
  command.add_option("--far", request->options.far, "a position that no table reaches")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000'000'000}))
      ->capture_default_str();
  command.add_option("--heads", request->options.heads, "of the layer that is permuted; they divide d")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--model", request->model.model, "a model whose own positions to put beside them");
  add_seed(command, request->options.seed);
  command.footer(
      "Examples:\n  attnctl experiment positions --positions 8 --format text\n"
      "  attnctl experiment positions --d 512 --picture matrix -o positions.svg\n"
      "  attnctl experiment positions --model data/tiny-bert --positions 8 --format text");
  Experiment experiment = [request](Session& session) { return run(*request, session); };
  experiment.inputs = [request] { return files_read(request->model); };
  return experiment;
}

}  // namespace attnctl::cli
