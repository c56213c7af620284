#include "browser/browser.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <signal.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "browser/browser_page.hpp"
#include "support/run.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// Becomes Chromium, which reads commands from file descriptor 3 and writes answers and events to 4.
[[noreturn]] void become_browser(const fs::path& directory, int socket) {
  setpgid(0, 0);
  // Chromium writes settings, caches and temporary files into these folders.
  setenv("HOME", directory.c_str(), 1);
  setenv("TMPDIR", directory.c_str(), 1);
  for (const char* name : {"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"})
    unsetenv(name);
  const int log = open((directory / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int high_socket = fcntl(socket, F_DUPFD_CLOEXEC, 10);  // dup2 must not replace it
  for (const int standard : {STDOUT_FILENO, STDERR_FILENO}) dup2(log, standard);
  for (const int end : {3, 4}) dup2(high_socket, end);
  const std::string profile = "--user-data-dir=" + (directory / "profile").string();
  execlp("chromium", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
         "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND",
         "--remote-debugging-pipe", profile.c_str(), static_cast<char*>(nullptr));
  _exit(127);
}

}  // namespace

bool browser_installed() {
  return run_shell("command -v chromium").status == 0;
}

Browser::Browser() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("socketpair failed");
  // Processes of Chromium whose parent has ended become children of this process, so the destructor can wait
  // for them.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  process_ = fork();
  if (process_ == 0) become_browser(directory_.path(), ends[1]);
  close(ends[1]);
  socket_ = ends[0];
  if (process_ < 0) throw std::runtime_error("fork failed");
  setpgid(process_, process_);  // also here, so that the group exists before the destructor kills it
  const timeval timeout{std::chrono::duration_cast<std::chrono::seconds>(kBrowserTimeout).count(), 0};
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

Browser::~Browser() {
  close(socket_);
  if (process_ <= 0) return;
  kill(-process_, SIGKILL);
  while (waitpid(-process_, nullptr, 0) > 0 || errno == EINTR) continue;
}

std::string Browser::log() const {
  const std::string text = slurp(directory_.path() / "log");
  return text.size() <= 2000 ? text : text.substr(text.size() - 2000);
}

void Browser::post(const Command& command) {
  json message = {{"id", ++last_id_}, {"method", command.method}, {"params", command.params}};
  if (!command.session.empty()) message["sessionId"] = command.session;
  std::string bytes = message.dump();
  bytes += '\0';
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::runtime_error("cannot send " + command.method + " to Chromium: " + log());
    sent += static_cast<std::size_t>(n);
  }
}

json Browser::call(const Command& command) {
  post(command);
  awaited_id_ = last_id_;
  answer_.reset();
  const std::string waiting_for = command.waiting_for.empty()
                                      ? command.method + " " + command.params.dump().substr(0, 300)
                                      : command.waiting_for;
  read_until([&] { return answer_.has_value(); }, waiting_for, command.timeout);
  if (answer_->contains("error"))
    throw std::runtime_error(waiting_for + ": " + (*answer_)["error"].value("message", "error"));
  return answer_->value("result", json::object());
}

std::optional<json> Browser::next_message() {
  const std::size_t end = buffer_.find('\0', searched_);
  searched_ = end == std::string::npos ? buffer_.size() : 0;
  if (end == std::string::npos) return std::nullopt;
  json message = json::parse(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(end));
  buffer_.erase(0, end + 1);
  return message;
}

void Browser::read_until(const std::function<bool()>& done, const std::string& waiting_for,
                         std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (!done()) {
    if (std::optional<json> message = next_message()) {
      dispatch(std::move(*message));
      continue;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd polled{socket_, POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&polled, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0)
      throw std::runtime_error(fmt::format("timeout after {} s, waiting for {}",
                                           static_cast<double>(timeout.count()) / 1000, waiting_for));
    std::array<char, 65536> bytes{};
    const ssize_t n = recv(socket_, bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw std::runtime_error("Chromium ended, waiting for " + waiting_for + ": " + log());
    buffer_.append(bytes.data(), static_cast<std::size_t>(n));
  }
}

void Browser::dispatch(json message) {
  if (message.contains("id")) {
    if (message["id"] == awaited_id_) answer_ = std::move(message);
  } else if (const auto page = pages_.find(message.value("sessionId", "")); page != pages_.end()) {
    page->second->on_event(message.value("method", ""), message["params"]);
  }
}

void Browser::detach(const BrowserPage& page) {
  std::erase_if(pages_, [&](const auto& entry) { return entry.second == &page; });
}

Browser& shared_browser() {
  static Browser browser;
  return browser;
}

}  // namespace attnctl::test
