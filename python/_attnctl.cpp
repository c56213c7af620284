// The extension module attnctl._attnctl: the C++ interface (include/attnctl) with plain Python types. The
// package attnctl wraps it, checks arguments and documents them.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <pthread.h>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "attnctl/attnctl.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// --- Calls

/// Counts the calls that are running, and refuses calls in a process that was forked during a call: threads
/// and locks of that call do not exist in the new process.
class RunningCall {
 public:
  RunningCall() {
    if (forked_during_call)
      throw attn::Error(attn::Status::environment,
                        "this process was forked while another thread ran attnctl; start it with the method "
                        "\"spawn\", or fork while no call of attnctl runs");
    ++running;
  }
  ~RunningCall() { --running; }
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

  static void watch_forks() {
    pthread_atfork(nullptr, nullptr, [] {
      if (running.exchange(0) > 0) forked_during_call = true;
    });
  }

 private:
  static inline std::atomic<int> running = 0;
  static inline std::atomic<bool> forked_during_call = false;
};

/// The last progress of a run. The threads of the run write it, and the calling thread shows it.
class LastProgress {
 public:
  void set(const attn::Progress& progress) {
    const std::lock_guard lock(mutex_);
    last_ = progress;
  }
  [[nodiscard]] std::optional<attn::Progress> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(last_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<attn::Progress> last_;
};

/// Calls work() in a new thread and returns its result. Meanwhile, other Python threads run, and this thread
/// handles signals and calls `show(step, done, total, unit)`, unless it is None. After an exception of a
/// signal handler, such as KeyboardInterrupt, or of `show`, stops the work and throws the exception.
template <typename Work>
auto interruptible(attn::RunOptions& options, const nb::object& show, const Work& work) {
  constexpr std::chrono::milliseconds kWait(50);
  const RunningCall call;
  std::stop_source stop;
  LastProgress progress;
  options.stop = stop.get_token();
  if (!show.is_none()) options.progress = [&](const attn::Progress& now) { progress.set(now); };
  std::future<decltype(work())> result;
  try {
    result = std::async(std::launch::async, work);
  } catch (const std::system_error& error) {
    throw attn::Error(attn::Status::limit,
                      "cannot start a thread (" + error.code().message() + "); end other threads first");
  }
  const auto wait = [&](std::chrono::milliseconds time) {
    const nb::gil_scoped_release released;
    return result.wait_for(time) == std::future_status::ready;
  };
  try {
    while (!wait(kWait)) {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (const auto now = progress.take()) show(now->step, now->done, now->total, now->unit);
    }
  } catch (...) {
    stop.request_stop();
    const nb::gil_scoped_release released;
    result.wait();
    throw;
  }
  return result.get();
}

// --- Arguments

using HeadArgument = std::tuple<int, std::size_t, std::size_t>;  // component, layer, head
/// text, text_pair, ids, type_ids, key_visible, target_text, target_ids, id
using InputArgument =
    std::tuple<std::string, std::optional<std::string>, std::vector<std::int64_t>, std::vector<std::int64_t>,
               std::vector<std::uint8_t>, std::string, std::vector<std::int64_t>, std::string>;

std::vector<attn::Input> make_inputs(std::vector<InputArgument> arguments) {
  std::vector<attn::Input> inputs;
  inputs.reserve(arguments.size());
  for (auto& [text, pair, ids, types, visible, target_text, target_ids, id] : arguments) {
    inputs.push_back({.text = std::move(text),
                      .text_pair = std::move(pair),
                      .ids = std::move(ids),
                      .type_ids = std::move(types),
                      .key_visible = std::move(visible),
                      .target_text = std::move(target_text),
                      .target_ids = std::move(target_ids),
                      .id = std::move(id)});
  }
  return inputs;
}

attn::RunOptions make_options(const std::vector<HeadArgument>& heads, std::size_t threads) {
  attn::RunOptions options;
  options.threads = threads;
  for (const auto& [component, layer, head] : heads)
    options.heads.push_back({static_cast<attn::Component>(component), layer, head});
  return options;
}

/// The options of a study, except those of the run, as attributes of a Python object.
attn::StudyOptions study_options(const nb::object& given, attn::RunOptions run) {
  attn::StudyOptions options;
  const auto read = [&](const char* name, auto& member) {
    const nb::object value = given.attr(name);
    try {
      member = nb::cast<std::remove_reference_t<decltype(member)>>(value);
    } catch (const std::bad_cast&) {
      throw attn::Error(attn::Status::usage, std::string(name) + ": got " + nb::repr(value).c_str() +
                                                 ", which has a wrong type or is too large or negative");
    }
  };
  read("measures", options.measures);
  read("causal", options.causal);
  read("max_length", options.max_length);
  read("stride", options.stride);
  read("batch_tokens", options.batch_tokens);
  read("skip_bad", options.skip_bad);
  read("seed", options.seed);
  read("fold_subtypes", options.fold_subtypes);
  read("null_models", options.null_models);
  read("null_shuffles", options.null_shuffles);
  read("frequencies", options.frequencies);
  read("state", options.state);
  read("checkpoint", options.checkpoint);
  options.run = std::move(run);
  return options;
}

// --- Results

/// Returns an array that owns its values; they are not copied.
template <typename T>
nb::object make_array(std::vector<T> values, const std::vector<std::size_t>& shape) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  T* const data = owner->data();
  const nb::capsule capsule(owner.release(),
                            [](void* place) noexcept { delete static_cast<std::vector<T>*>(place); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, shape.size(), shape.data(), capsule));
}

nb::object cell_object(const attn::Cell& cell) {
  return std::visit(
      [](const auto& value) -> nb::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return nb::none();
        } else {
          return nb::cast(value);
        }
      },
      cell);
}

template <typename T>
T number_of(const attn::Cell& cell) {
  if (const auto* const number = std::get_if<double>(&cell)) return static_cast<T>(*number);
  if (const auto* const count = std::get_if<std::int64_t>(&cell)) return static_cast<T>(*count);
  if (const auto* const flag = std::get_if<bool>(&cell)) return static_cast<T>(*flag);
  return static_cast<T>(std::numeric_limits<double>::quiet_NaN());
}

/// Returns a column as an array of numbers, or as a list of values for texts and for booleans of which some
/// are undefined. Undefined numbers are NaN, so integers of which some are undefined are float64.
nb::object column_object(const attn::Table& table, std::size_t column) {
  const auto undefined = [&](const std::vector<attn::Cell>& row) { return row[column].index() == 0; };
  const bool gaps = std::any_of(table.rows.begin(), table.rows.end(), undefined);
  const auto numbers = [&]<typename T>(T) {
    std::vector<T> values(table.rows.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = number_of<T>(table.rows[i][column]);
    return make_array(std::move(values), {table.rows.size()});
  };
  switch (table.types[column]) {
    case attn::ColumnType::float32:
      return numbers(float());
    case attn::ColumnType::undefined:
    case attn::ColumnType::float64:
      return numbers(double());
    case attn::ColumnType::integer:
      return gaps ? numbers(double()) : numbers(std::int64_t());
    case attn::ColumnType::boolean:
    case attn::ColumnType::text:
      break;
  }
  nb::list values;
  for (const std::vector<attn::Cell>& row : table.rows) values.append(cell_object(row[column]));
  return values;
}

/// Returns the tables as [(name, [(column, values)])] and the tensors as [(name, array)].
nb::tuple results_object(attn::Results results) {
  nb::list tables, tensors;
  for (const attn::Table& table : results.tables) {
    nb::list columns;
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      columns.append(nb::make_tuple(table.columns[c], column_object(table, c)));
    tables.append(nb::make_tuple(table.name, columns));
  }
  for (attn::Tensor& tensor : results.tensors) {
    const std::vector<std::size_t> shape = tensor.shape;
    tensors.append(nb::make_tuple(
        tensor.name,
        std::visit([&](auto& values) { return make_array(std::move(values), shape); }, tensor.values)));
  }
  return nb::make_tuple(tables, tensors);
}

// --- Observers

/// Passes panels to Python functions panel(input, component, layer, head, first_row, weights). The array of a
/// panel is a view of the weights, which are valid only during the call: a function that keeps the view, or a
/// part of it, ends the run with an error.
class PythonObserver final : public attn::Observer {
 public:
  explicit PythonObserver(nb::object panel) : panel_(std::move(panel)) {}

  void panel(const attn::Panel& panel) override {
    const nb::gil_scoped_acquire locked;
    const nb::capsule owner(this, [](void*) noexcept {});
    const std::size_t shape[] = {panel.weights.rows, panel.weights.cols};
    const std::int64_t strides[] = {static_cast<std::int64_t>(panel.weights.stride), 1};
    {
      const nb::object view =
          nb::cast(nb::ndarray<nb::numpy, const float>(panel.weights.data, 2, shape, owner, strides));
      panel_(panel.input, static_cast<int>(panel.head.component), panel.head.layer, panel.head.head,
             panel.first_row, view);
    }
    if (Py_REFCNT(owner.ptr()) > 1)
      throw attn::Error(attn::Status::usage,
                        "an observer kept panel.weights, which is valid only during the call; keep "
                        "panel.weights.copy()");
  }

 private:
  nb::object panel_;
};

/// Returns the properties of a model: name, family, d_model, vocabulary, max_positions, parameters, layers.
nb::tuple info_object(const attn::Model& model) {
  const attn::ModelInfo& info = model.info();
  nb::list layers;
  for (const attn::LayerInfo& layer : info.layers)
    layers.append(nb::make_tuple(static_cast<int>(layer.component), layer.number, layer.heads, layer.kv_heads,
                                 layer.d_head, layer.d_value, layer.causal, layer.kind));
  return nb::make_tuple(info.name, info.family, info.d_model, info.vocabulary, info.max_positions,
                        info.parameters, layers);
}

void translate_error(const std::exception_ptr& thrown, void* /*unused*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const attn::Error& error) {
    const nb::object make = nb::module_::import_("attnctl._errors").attr("make_error");
    const nb::object made = make(static_cast<int>(error.status()), error.what());
    PyErr_SetObject(made.type().ptr(), made.ptr());
  }
}

}  // namespace

NB_MODULE(_attnctl, module) {
  RunningCall::watch_forks();
  nb::register_exception_translator(translate_error);
  module.def("version", &attn::version);

  nb::class_<attn::Model>(module, "Model")
      .def_static(
          "open",
          [](const std::string& model, const std::optional<std::string>& config) {
            const RunningCall call;
            const nb::gil_scoped_release released;
            return attn::Model::open(model, config);
          },
          "model"_a, "config"_a.none())
      .def("info", &info_object)
      .def("warnings", [](const attn::Model& model) {
        nb::list list;
        for (const attn::Warning& warning : model.warnings())
          list.append(nb::make_tuple(warning.code, warning.message, warning.count));
        return list;
      });

  nb::class_<attn::Tokenizer>(module, "Tokenizer")
      .def_static(
          "open",
          [](const std::string& model) {
            const RunningCall call;
            const nb::gil_scoped_release released;
            return attn::Tokenizer::open(model);
          },
          "model"_a)
      .def(
          "encode",
          [](const attn::Tokenizer& tokenizer, const std::string& text,
             const std::optional<std::string>& pair) {
            std::vector<attn::Token> tokens;
            {
              const RunningCall call;
              const nb::gil_scoped_release released;
              tokens = tokenizer.encode(text, pair);
            }
            nb::list list;
            for (const attn::Token& token : tokens)
              list.append(nb::make_tuple(token.id, token.piece, token.begin, token.end, token.type,
                                         token.is_special));
            return list;
          },
          "text"_a, "pair"_a.none())
      .def("size", &attn::Tokenizer::size)
      .def("id",
           [](const attn::Tokenizer& tokenizer, const std::string& piece) { return tokenizer.id(piece); })
      .def("piece", &attn::Tokenizer::piece);

  nb::class_<attn::Batch>(module, "Batch")
      .def_static(
          "make",
          [](const attn::Model& model, std::vector<InputArgument> arguments) {
            const std::vector<attn::Input> inputs = make_inputs(std::move(arguments));
            const RunningCall call;
            const nb::gil_scoped_release released;
            return attn::Batch(model, inputs);
          },
          "model"_a, "inputs"_a)
      .def("sequences", [](const attn::Batch& batch) {
        nb::list list;
        for (const attn::Sequence& sequence : batch.sequences())
          list.append(nb::make_tuple(sequence.id, sequence.ids, sequence.tokens, sequence.target_ids,
                                     sequence.target_tokens));
        return list;
      });

  module.def(
      "analyze",
      [](const attn::Batch& batch, const std::vector<std::string>& include,
         const std::vector<HeadArgument>& heads, std::size_t threads, const nb::object& progress) {
        attn::AnalyzeOptions options{.include = include, .run = make_options(heads, threads)};
        return results_object(
            interruptible(options.run, progress, [&] { return attn::analyze(batch, options); }));
      },
      "batch"_a, "include"_a, "heads"_a, "threads"_a, "progress"_a.none());

  module.def(
      "run",
      [](const attn::Batch& batch, const std::vector<nb::object>& observers,
         const std::vector<HeadArgument>& heads, std::size_t threads, const nb::object& progress) {
        std::vector<PythonObserver> own(observers.begin(), observers.end());
        std::vector<attn::Observer*> pointers;
        for (PythonObserver& observer : own) pointers.push_back(&observer);
        attn::RunOptions options = make_options(heads, threads);
        interruptible(options, progress, [&] { attn::run(batch, pointers, options); });
      },
      "batch"_a, "observers"_a, "heads"_a, "threads"_a, "progress"_a.none());

  module.def(
      "study",
      [](const attn::Model& model, const std::vector<std::string>& files, std::vector<InputArgument> inputs,
         const nb::object& given, const std::vector<HeadArgument>& heads, std::size_t threads,
         const nb::object& progress) {
        const attn::Corpus corpus{files, make_inputs(std::move(inputs))};
        attn::StudyOptions options = study_options(given, make_options(heads, threads));
        return results_object(
            interruptible(options.run, progress, [&] { return attn::study(model, corpus, options); }));
      },
      "model"_a, "files"_a, "inputs"_a, "options"_a, "heads"_a, "threads"_a, "progress"_a.none());

  module.def(
      "compare",
      [](const attn::Model& a, const attn::Model& b, const std::vector<std::string>& files,
         std::vector<InputArgument> inputs, bool match, const nb::object& given,
         const std::vector<HeadArgument>& heads, std::size_t threads, const nb::object& progress) {
        const attn::Corpus corpus{files, make_inputs(std::move(inputs))};
        attn::CompareOptions options{.match = match,
                                     .study = study_options(given, make_options(heads, threads))};
        const bool weights = corpus.files.empty() && corpus.inputs.empty();
        return results_object(interruptible(options.study.run, progress, [&] {
          return weights ? attn::compare(a, b, options) : attn::compare(a, b, corpus, options);
        }));
      },
      "a"_a, "b"_a, "files"_a, "inputs"_a, "match"_a, "options"_a, "heads"_a, "threads"_a,
      "progress"_a.none());
}
