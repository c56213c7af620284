# Precompiles the headers that most sources include. Sources still include all headers that they use.
set(precompiled_headers
  <algorithm> <array> <chrono> <cmath> <cstddef> <cstdint> <deque> <filesystem> <fstream> <functional> <map> <memory>
  <mutex> <numbers> <numeric> <optional> <random> <ranges> <set> <span> <sstream> <string> <string_view> <thread>
  <unordered_map> <utility> <variant> <vector> <fmt/format.h>
  "${PROJECT_SOURCE_DIR}/src/formats/json_templates.hpp")
target_precompile_headers(attnctl_core PRIVATE ${precompiled_headers})
