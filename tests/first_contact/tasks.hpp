#pragma once

#include <string>
#include <vector>

namespace attnctl::test {

/// A task of a new user. Texts are compared with any white space between their words, so that a line may be
/// broken anywhere.
struct Task {
  int number = 0;       // of the task, 1 to 45; a task may have several commands
  std::string words;    // what the user wants
  std::string command;  // for /bin/sh, in a new folder with data/ and models/ (models of 72 and 144 heads)
  int status = 0;       // exit status
  std::vector<std::string> shows;       // must be on the screen
  std::vector<std::string> hides = {};  // must not be on the screen or in the pipe
  std::vector<std::string> piped = {};  // must be in the pipe (default: as on the screen)
};

[[nodiscard]] std::vector<Task> student_tasks();
[[nodiscard]] std::vector<Task> data_scientist_tasks();
[[nodiscard]] std::vector<Task> researcher_tasks();

}  // namespace attnctl::test
