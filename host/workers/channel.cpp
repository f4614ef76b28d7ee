#include "host/workers/channel.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/socket.h>

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr int kDeepestHead = 16;  // levels; none of our heads is nested more deeply
constexpr size_t kMostHead = 64 << 10;
constexpr const char* kGone = "the other end of a worker's socket is gone";

// Counts open arrays and objects, and aborts parsing if there are too many.
class Depth final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(size_t) override { return ++depth_ <= kDeepestHead; }
  bool start_array(size_t) override { return ++depth_ <= kDeepestHead; }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  int depth_ = 0;
};

// Whether a head can be parsed safely: the parser recurses once per nesting level, and the stack is limited.
// Also false for invalid MessagePack.
bool is_shallow(const uint8_t* begin, const uint8_t* end) {
  Depth depth;
  return json::sax_parse(begin, end, &depth, json::input_format_t::msgpack);
}

struct Control {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * Message::kMostShared)];
};

std::vector<Descriptor> descriptors_in(msghdr& packet) {
  std::vector<Descriptor> out;
  for (cmsghdr* c = CMSG_FIRSTHDR(&packet); c; c = CMSG_NXTHDR(&packet, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      out.emplace_back(fd);
    }
  }
  return out;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void Message::parse(std::string_view packet) {
  uint32_t size = 0;
  if (packet.size() >= sizeof size) {
    std::memcpy(&size, packet.data(), sizeof size);
    packet.remove_prefix(sizeof size);
  }
  const auto* begin = reinterpret_cast<const uint8_t*>(packet.data());
  if (size > 0 && size <= packet.size() && is_shallow(begin, begin + size))
    head = json::from_msgpack(begin, begin + size, true, false);
  if (!head.is_object()) throw Error(KINORA_ERROR_DATA, "the other side sent a malformed message");
  bytes = packet.substr(size);
}

void Channel::send(const Message& message) const {
  const std::vector<uint8_t> head = nlohmann::json::to_msgpack(message.head);
  if (head.size() > kMostHead || message.bytes.size() > Message::kMostBytes ||
      message.shared.size() > Message::kMostShared)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                fmt::format("a message of {} bytes to a worker is too large: too many fields", head.size()));
  const auto size = static_cast<uint32_t>(head.size());
  iovec parts[3] = {{const_cast<uint32_t*>(&size), sizeof size},
                    {const_cast<uint8_t*>(head.data()), head.size()},
                    {const_cast<char*>(message.bytes.data()), message.bytes.size()}};
  msghdr packet{};
  packet.msg_iov = parts;
  packet.msg_iovlen = 3;
  Control control{};
  if (!message.shared.empty()) {
    packet.msg_control = control.bytes;
    packet.msg_controllen = CMSG_SPACE(sizeof(int) * message.shared.size());
    cmsghdr* c = CMSG_FIRSTHDR(&packet);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * message.shared.size());
    for (size_t i = 0; i < message.shared.size(); ++i) {
      const int fd = message.shared[i].get();
      std::memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  ssize_t sent = 0;
  do sent = ::sendmsg(socket_.get(), &packet, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) throw Error(KINORA_ERROR_IO, fmt::format("{} ({})", kGone, std::strerror(errno)));
}

Channel::Got Channel::receive(Message& out, int milliseconds) const {
  pollfd waits{socket_.get(), POLLIN, 0};
  const int ready = ::poll(&waits, 1, milliseconds);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return Got::nothing;
  constexpr size_t kRoom = sizeof(uint32_t) + kMostHead + Message::kMostBytes;
  const auto room = std::make_unique_for_overwrite<char[]>(kRoom);
  iovec part{room.get(), kRoom};
  Control control{};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control.bytes;
  packet.msg_controllen = sizeof control.bytes;
  const ssize_t got = ::recvmsg(socket_.get(), &packet, MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return Got::nothing;
  if (got <= 0) return Got::closed;
  out = {};
  out.shared = descriptors_in(packet);
  const bool is_cut = (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  out.parse({room.get(), is_cut ? 0 : static_cast<size_t>(got)});
  return Got::message;
}

std::pair<Descriptor, Descriptor> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(KINORA_ERROR_IO,
                fmt::format("a socket for a worker: {}; raise the limit on open files (ulimit -n)",
                            std::strerror(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

LifeSigns::LifeSigns() : memory_(::memfd_create("kinora-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!memory_ || ::ftruncate(memory_.get(), sizeof(Page)) != 0)
    throw Error(KINORA_ERROR_NO_MEMORY,
                fmt::format("no shared memory for a worker: {}", std::strerror(errno)));
  // A worker that could shrink it would kill this process.
  ::fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  map();
}

LifeSigns::LifeSigns(Descriptor memory) : memory_(std::move(memory)) { map(); }

LifeSigns::~LifeSigns() { ::munmap(page_, sizeof(Page)); }

void LifeSigns::map() {
  void* at = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (at == MAP_FAILED)
    throw Error(KINORA_ERROR_NO_MEMORY,
                fmt::format("a worker's page cannot be mapped: {}", std::strerror(errno)));
  page_ = static_cast<Page*>(at);
}

}  // namespace kinora::core
