// Prints the token that each token of a text attends to most.
// Usage: attends_to MODEL LAYER HEAD TEXT

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <attnctl/attnctl.hpp>

namespace {

/// Prints one line per query: its token, the key with the largest weight, and this weight.
class StrongestKeys : public attn::Observer {
 public:
  void begin(const attn::Batch& batch) override { tokens_ = batch.sequences().front().tokens; }

  void panel(const attn::Panel& panel) override {
    for (std::size_t r = 0; r < panel.weights.rows; ++r) {
      const auto row = panel.weights.row(r);  // [keys]
      const auto largest = std::ranges::max_element(row);
      const auto key = static_cast<std::size_t>(largest - row.begin());
      std::printf("%-10s %-10s %.2f\n", tokens_.at(panel.first_row + r).c_str(), tokens_.at(key).c_str(),
                  *largest);
    }
  }

 private:
  std::vector<std::string> tokens_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: attends_to MODEL LAYER HEAD TEXT\n");
    return static_cast<int>(attn::Status::usage);
  }
  try {
    const attn::Model model = attn::Model::open(argv[1]);
    const attn::Batch batch(model, {{.text = argv[4]}});
    const attn::Head head{.layer = std::strtoul(argv[2], nullptr, 10),
                          .head = std::strtoul(argv[3], nullptr, 10)};
    StrongestKeys observer;
    attn::run(batch, observer, {.heads = {head}});
  } catch (const attn::Error& error) {
    std::fprintf(stderr, "attends_to: %s\n", error.what());
    return static_cast<int>(error.status());
  }
  return 0;
}
