#include <string_view>

#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
// gelu_fast and its relatives are algebraically the tanh form.
constexpr NamedActivation activations[] = {{"gelu", Activation::gelu_erf},
                                           {"gelu_python", Activation::gelu_erf},
                                           {"gelu_new", Activation::gelu_tanh},
                                           {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                           {"gelu_fast", Activation::gelu_tanh},
                                           {"gelu_python_tanh", Activation::gelu_tanh},
                                           {"gelu_accurate", Activation::gelu_tanh},
                                           {"silu", Activation::silu},
                                           {"swish", Activation::silu},
                                           {"relu", Activation::relu},
                                           {"relu2", Activation::relu_squared},
                                           {"tanh", Activation::tanh}};

}  // namespace

Activation activation_named(const std::string& name, const ConfigKeys& keys, const ConfigReader& config) {
  std::string known;
  for (const NamedActivation& row : activations) {
    if (row.name == name) return row.activation;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  config.refuse_unsupported(*config.find(keys.activation), known);
}

Activation resolve_activation(const ConfigKeys& keys, const ConfigReader& config) {
  return activation_named(config.text(keys.activation).value_or(keys.activation_otherwise), keys, config);
}

}  // namespace attnctl
