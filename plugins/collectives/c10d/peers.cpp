#include "plugins/collectives/c10d/peers.hpp"

namespace kinora {

namespace {

bool is_timeout(const std::string& text) {
  return text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
}

std::string listed(const std::set<int64_t>& ranks) {
  std::string out;
  for (const int64_t r : ranks) out += (out.empty() ? "" : ", ") + std::to_string(r);
  return (ranks.size() == 1 ? "rank " : "ranks ") + out;
}

// The first line, without the C++ stack that libtorch appends.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

RollCall::Place Peers::place(const std::string& what, int64_t peer) const {
  RollCall::Place out{what + " of group '" + name + "'", {}};
  for (int64_t r = 0; r < size(); ++r)
    if (r != rank && (peer < 0 || r == peer)) out.waits_for.push_back(members[static_cast<size_t>(r)]);
  return out;
}

Error Peers::failure(const std::string& what, const std::string& text, int64_t peer) const {
  constexpr size_t kNamed = 4;  // most ranks named of those that wait elsewhere: one of them shows the cause
  const RollCall::Place here = place(what, peer);
  RollCall::Answers said;
  said.timed_out = is_timeout(text);
  std::string more;
  try {
    if (leave) leave();
    said = roll->call(here, said.timed_out);
    if (!said.absent.empty())
      more = "; " + listed(said.absent) + " did not take part: its log says why, or it needs more time";
    for (size_t i = 0; i < std::min(said.at.size(), kNamed); ++i) more += "; " + said.at[i];
    if (said.at.size() > kNamed)
      more += "; and " + std::to_string(said.at.size() - kNamed) + " more elsewhere";
  } catch (const std::exception&) {
    more = "; the rendezvous is gone too";
  }
  return {said.timed_out ? KINORA_TIMEOUT : KINORA_IO,
          collective + ": " + here.what +
              (said.timed_out ? " was not answered within " + std::to_string(timeout.count()) + " ms"
                              : " failed (" + first_line(text) + ")") +
              more};
}

}  // namespace kinora
