#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>

#include <nlohmann/json.hpp>

#include "support/temp_dir.hpp"

/// Headless Chromium for tests. All errors are std::runtime_error.
namespace attnctl::test {

class BrowserPage;

/// Returns whether PATH has a program `chromium`.
[[nodiscard]] bool browser_installed();

/// Longest time to wait for one answer of the browser.
inline constexpr std::chrono::milliseconds kBrowserTimeout{60'000};

/// A process of headless Chromium with a new profile, which the destructor kills. The browser resolves no
/// host names. Commands and events of the DevTools protocol
/// (https://chromedevtools.github.io/devtools-protocol/) go through a socket pair: JSON messages, each with a
/// NUL byte at its end.
class Browser {
 public:
  Browser();
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  /// A command. `session` is empty for commands to the browser itself.
  struct Command {
    std::string method;
    nlohmann::json params = nlohmann::json::object();
    std::string session = {};
    std::string waiting_for = {};  // for the message of a timeout (default: method and params)
    std::chrono::milliseconds timeout = kBrowserTimeout;
  };
  /// Sends a command and returns its result. Throws if the command fails, if its answer does not arrive in
  /// time (the message names what was waited for), or if the browser has ended.
  nlohmann::json call(const Command& command);
  /// Sends a command and does not wait for its result.
  void post(const Command& command);
  /// Reads messages until `done` returns true. Throws like `call`.
  void read_until(const std::function<bool()>& done, const std::string& waiting_for,
                  std::chrono::milliseconds timeout = kBrowserTimeout);

  /// Sends the events of a session to a page.
  void attach(const std::string& session, BrowserPage& page) { pages_[session] = &page; }
  void detach(const BrowserPage& page);

 private:
  [[nodiscard]] std::optional<nlohmann::json> next_message();
  void dispatch(nlohmann::json message);
  [[nodiscard]] std::string log() const;  // the last lines of the standard error of the browser

  TempDir directory_;
  pid_t process_ = -1;
  int socket_ = -1;
  int last_id_ = 0;
  std::string buffer_;                         // received bytes after the last complete message
  std::size_t searched_ = 0;                   // number of bytes of the buffer without a NUL
  int awaited_id_ = 0;                         // the command whose answer `call` waits for
  std::optional<nlohmann::json> answer_;       // its answer
  std::map<std::string, BrowserPage*> pages_;  // by session
};

/// Returns the browser of the test program. Starts it at the first call.
[[nodiscard]] Browser& shared_browser();

}  // namespace attnctl::test
