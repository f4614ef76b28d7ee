#include "plugins/collectives/c10d/peers.hpp"

#include <algorithm>
#include <optional>
#include <thread>

namespace kinora {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string key(int64_t rank) { return "failed/" + std::to_string(rank); }

// What rank `peer` noted; nothing if it has not.
std::optional<std::string> note_of(c10d::Store& store, int64_t peer) {
  if (!store.check({key(peer)})) return std::nullopt;
  const auto bytes = store.get(key(peer));
  return std::string(bytes.begin(), bytes.end());
}

bool is_timeout(const std::string& text) {
  return text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
}

std::string listed(const std::vector<int64_t>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) out += (i ? ", " : "") + std::to_string(ranks[i]);
  return out;
}

// The first line, without the C++ stack that libtorch appends.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Error Peers::failure(const std::string& what, const std::string& text, int64_t peer) const {
  bool timed_out = is_timeout(text);
  std::vector<int64_t> silent;
  std::string elsewhere;
  try {
    const std::string mine = (timed_out ? "timeout in " : "broken in ") + what;
    store->set(key(rank), std::vector<uint8_t>(mine.begin(), mine.end()));
    if (leave) leave();
    const auto until = steady_clock::now() + std::clamp(timeout / 10, milliseconds(100), milliseconds(1000));
    for (int64_t r = 0; r < size(); ++r) {
      if (r == rank || (peer >= 0 && r != peer)) continue;
      auto note = note_of(*store, r);
      while (!note && steady_clock::now() < until) {
        std::this_thread::sleep_for(milliseconds(10));
        note = note_of(*store, r);
      }
      if (!note) {
        silent.push_back(members[static_cast<size_t>(r)]);
      } else {
        timed_out = timed_out || is_timeout(*note);
        const std::string at = note->substr(note->find(" in ") + 4);
        if (peer < 0 && at != what)
          elsewhere += "; rank " + std::to_string(members[static_cast<size_t>(r)]) + " is in " + at;
      }
    }
  } catch (const std::exception&) {
    elsewhere += "; the rendezvous is gone too";
  }
  std::string message = collective + ": " + what + " of group '" + name + "' ";
  message += timed_out ? "was not answered within " + std::to_string(timeout.count()) + " ms"
                       : "failed (" + first_line(text) + ")";
  if (!silent.empty())
    message += "; " + listed(silent) + " did not take part: its log says why, or it needs more time";
  return {timed_out ? KINORA_TIMEOUT : KINORA_IO, message + elsewhere};
}

}  // namespace kinora
