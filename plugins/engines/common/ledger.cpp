#include "plugins/engines/common/ledger.hpp"

#include <string_view>

#include "plugins/engines/common/remote.hpp"

namespace kinora::engines {
namespace {

// Smaller fields are not worth an entry in the table: each clone counts them as its own.
constexpr uint64_t kSharedFrom = 1024;

}  // namespace

Weight weigh(const Sample& sample) {
  Weight out;
  uint64_t shared = 0;
  for (const auto& field : sample.fields()) {
    if (field.bytes.size() < kSharedFrom || field.name == kRemote) continue;
    out.shared.push_back({reinterpret_cast<uintptr_t>(field.bytes.data()), field.bytes.size()});
    shared += field.bytes.size();
  }
  const uint64_t all = sample.memory();
  out.own = all > shared ? all - shared : 0;
  if (const RemotePieces* remote = remote_of(sample))
    for (const RemotePiece& piece : remote->pieces())
      out.shared.push_back({piece.id, piece.bytes, piece.node + 1});
  return out;
}

void add_copies(const Weight& of, size_t place, Weight& to) {
  for (const auto& block : of.shared)
    if (block.place != place) to.shared.push_back({block.id, block.bytes, place});
}

uint64_t bytes_at(const Weight& weight, size_t place) {
  uint64_t out = 0;
  for (const auto& block : weight.shared)
    if (block.place == place) out += block.bytes;
  return out;
}

void ByteSum::count(const Weight& weight) {
  now_[0] += weight.own;
  for (const auto& block : weight.shared) {
    if (block.place >= now_.size()) now_.resize(block.place + 1);
    if (++blocks_[block] == 1) now_[block.place] += block.bytes;
  }
}

void ByteSum::add(const Weight& weight) {
  count(weight);
  peak_.resize(now_.size());
  peak_[0] = std::max(peak_[0], now_[0]);
  for (const auto& block : weight.shared)
    peak_[block.place] = std::max(peak_[block.place], now_[block.place]);
}

void ByteSum::remove(const Weight& weight) {
  now_[0] -= weight.own;
  for (const auto& block : weight.shared) {
    const auto at = blocks_.find(block);
    if (--at->second != 0) continue;
    now_[block.place] -= block.bytes;
    blocks_.erase(at);
  }
}

std::vector<uint64_t> ByteSum::after(const Weight& in, const Weight* out) {
  count(in);
  if (out) remove(*out);
  std::vector<uint64_t> answer = now_;
  if (out) count(*out);
  remove(in);
  return answer;
}

void Ledger::add_node(uint64_t room) {
  if (room == 0) return;
  bounds_.push_back(bounds_[0] == 0 ? room : std::min(bounds_[0], room));
  reserved_.push_back(0);
}

bool Ledger::has_room(const Weight& in, const Weight* out) {
  const std::vector<uint64_t> after = samples_.after(in, out);
  const auto fits = [&](size_t place) {
    return bounds_[place] == 0 || after[place] + reserved_[place] <= bounds_[place];
  };
  return ((in.own == 0 && !in.shared.empty()) || fits(0)) &&
         std::all_of(in.shared.begin(), in.shared.end(),
                     [&](const Weight::Block& block) { return fits(block.place); });
}

bool Ledger::is_over() const {
  for (size_t place = 0; place < places(); ++place)
    if (is_over(place)) return true;
  return false;
}

bool Ledger::adds_much(const Weight& in, const Weight* out) {
  const std::vector<uint64_t> after = samples_.after(in, out);
  for (size_t place = 0; place < places(); ++place)
    if (is_over(place) && after[place] > samples_.now(place) + bounds_[place] / 16) return true;
  return false;
}

}  // namespace kinora::engines
