#include "cli/commands.hpp"

int main(int argc, char** argv) {
  return attnctl::cli::run(argc, argv);
}
