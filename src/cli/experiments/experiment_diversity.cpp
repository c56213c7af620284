#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "checkpoint/source.hpp"
#include "cli/experiments/experiments.hpp"
#include "cli/options/inputs.hpp"
#include "report/npz.hpp"
#include "textbook/diversity.hpp"

namespace attnctl::cli {
namespace {

struct DiversityRequest {
  DiversityOptions options;
  std::optional<std::size_t> d_head;
  std::string model;
  std::string circuit = "qk";
  std::string save;
};

/// Files that --save writes.
constexpr std::array kSaved = {"random.npz", "specialised.npz", "config.json"};

/// Writes DIR/random.npz and DIR/specialised.npz, two models of the family `attention`, and their
/// DIR/config.json.
void save_weights(const DiversityRequest& request, Session& session) {
  const std::filesystem::path folder = request.save;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(Status::environment, "{}: {}", escaped(request.save), error.message());
  for (const bool specialised : {false, true}) {
    OutputFile out(folder / kSaved[specialised ? 1 : 0]);
    NpzWriter writer(out);
    for (const Tensor& tensor : diversity_weights(request.options, specialised, session.pool))
      writer.add(tensor.name, tensor);
    writer.close();
    out.commit();
  }
  OutputFile config(folder / kSaved[2]);
  config.write(fmt::format("{{\"model_type\": \"attention\", \"heads\": {}}}\n", request.options.heads));
  config.commit();
}

ExperimentResult run_diversity(DiversityRequest request, Session& session) {
  DiversityOptions& options = request.options;
  if (!request.model.empty()) {
    const Model model = Model::bind(open_model_source(request.model, {}, session.warnings), session.warnings);
    const Circuit circuit = request.circuit == "ov" ? Circuit::ov : Circuit::qk;
    return model_diversity_experiment(model, circuit, options, session.pool, session.warnings);
  }
  if (!request.d_head && options.d % options.heads != 0) {
    fail(Status::usage, "--heads: {} heads do not divide --d {}; give --d-head", options.heads, options.d);
  }
  options.d_head = request.d_head.value_or(options.d / options.heads);
  ExperimentResult result = diversity_experiment(options, session.pool);
  if (!request.save.empty()) save_weights(request, session);
  return result;
}

}  // namespace

Experiment add_diversity(CLI::App& command) {
  auto request = std::make_shared<DiversityRequest>();
  DiversityOptions& options = request->options;
  CLI::Option* d = command.add_option("--d", options.d, "size of what heads read")
                       ->check(CLI::Range(1, 1 << 15))
                       ->capture_default_str();
  CLI::Option* heads =
      command.add_option("--heads", options.heads)->check(CLI::Range(1, 1024))->capture_default_str();
  CLI::Option* d_head =
      command.add_option("--d-head", request->d_head, "size of a head (default: d / heads)")
          ->check(CLI::Range(1, 1 << 15));
  CLI::Option* gain = command.add_option("--gain", options.gain, "of a specialised head's own dimensions")
                          ->check(CLI::Range(1e-6, 1e6))
                          ->capture_default_str();
  command.add_option("--draws", options.draws, "how often random weights are drawn")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  CLI::Option* save =
      command.add_option("--save", request->save,
                         "a folder for the first draw: random.npz and specialised.npz, with config.json");
  CLI::Option* model = command.add_option(
      "--model", request->model, "a trained model: its layers beside random heads of the same shapes");
  for (CLI::Option* option : {d, heads, d_head, gain, save}) option->excludes(model);
  command.add_option("--circuit", request->circuit, "of the model: qk or ov")
      ->check(CLI::IsMember({"qk", "ov"}))
      ->needs(model)
      ->capture_default_str();
  add_seed(command, options.seed);
  command.footer(
      "Examples:\n  attnctl experiment diversity --format text\n"
      "  attnctl experiment diversity --model data/tiny-llama --format text\n"
      "  attnctl experiment diversity --picture similarity -o diversity.svg\n"
      "  attnctl experiment diversity --save weights -o diversity.json");
  Experiment experiment([request](Session& session) { return run_diversity(*request, session); });
  experiment.inputs = [request] { return files_read(ModelOptions{.model = request->model, .config = {}}); };
  experiment.outputs = [request] {
    std::vector<OutputPath> outputs;
    if (request->save.empty()) return outputs;
    for (const char* name : kSaved)
      outputs.push_back({"--save", std::filesystem::path(request->save) / name});
    return outputs;
  };
  return experiment;
}

}  // namespace attnctl::cli
