#include "plugins/collectives/gloo/transfer_check.hpp"

#include <vector>

#include <c10/util/StringUtil.h>

namespace kinora {

namespace {

bool is_message(uint32_t op) { return op == KINORA_OP_SEND || op == KINORA_OP_RECV; }

// "Double [4, 3]", which must be equal at both ends of a message.
std::string contents(const Transfer<at::Tensor>& t) {
  return t.in.defined() ? c10::str(t.in.scalar_type(), " ", t.in.sizes()) : "nothing";
}

// "sum #17 of Double [4, 3]", with everything else that must be equal on every rank.
std::string described(const Peers& p, const Transfer<at::Tensor>& t, const std::string& what) {
  std::string out = what + " of " + contents(t);
  if (t.op == KINORA_OP_ALL_GATHER || t.op == KINORA_OP_REDUCE_SCATTER)
    out += " along dimension " + std::to_string(t.dim);
  if (t.op == KINORA_OP_ALL_TO_ALL)
    out += " from dimension " + std::to_string(t.dim) + " to " + std::to_string(t.dim2);
  if (t.op == KINORA_OP_BROADCAST)
    out += " from rank " + std::to_string(p.members[static_cast<size_t>(t.peer)]);
  return out;
}

}  // namespace

std::string Announced::difference(const Peers& p) const {
  const auto name_of = [&](int64_t rank) {
    return "rank " + std::to_string(p.members[static_cast<size_t>(rank)]);
  };
  for (const auto& [rank, key] : others) {
    if (!p.store->check({key})) continue;
    const auto bytes = p.store->get(key);
    const std::string theirs(bytes.begin(), bytes.end());
    if (theirs != text)
      return name_of(p.rank) + " starts " + text + ", " + name_of(rank) + " " + theirs +
             ": ranks of a group start the same transfers in the same order";
  }
  return "";
}

Announced TransferCheck::before(const Peers& p, const Transfer<at::Tensor>& t, const std::string& what) {
  Announced e;
  if (is_message(t.op)) {
    const bool sends = t.op == KINORA_OP_SEND;
    const int64_t from = sends ? p.rank : t.peer, to = sends ? t.peer : p.rank;
    const std::string key =
        c10::str("check/", from, "/", to, "/", t.tag, "/", messages_[{from, to, t.tag}]++, "/");
    e.mine = key + (sends ? "sent" : "received");
    e.others[t.peer] = key + (sends ? "received" : "sent");
    e.text = c10::str("a message with tag ", t.tag, " of ", contents(t));
  } else {
    const std::string key = c10::str("check/", collectives_++, "/");
    e.mine = key + std::to_string(p.rank);
    for (int64_t r = 0; r < p.size(); ++r)
      if (r != p.rank) e.others[r] = key + std::to_string(r);
    e.text = described(p, t, what);
  }
  std::string why;
  try {
    p.store->set(e.mine, std::vector<uint8_t>(e.text.begin(), e.text.end()));
    why = e.difference(p);
  } catch (const std::exception& gone) {
    why = gone.what();
  }
  if (!why.empty()) throw p.failure(what, why, is_message(t.op) ? t.peer : -1);
  return e;
}

}  // namespace kinora
