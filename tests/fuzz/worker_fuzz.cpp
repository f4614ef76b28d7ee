// Any bytes as a message from a worker process, whose memory a decoder may have corrupted: a sample with all
// of its bytes present, or an error. The message comes with two pieces of memory, one sealed as required and
// one not. The same bytes as the head of a packed sample (kinora/embed.h), with two pieces of the caller's.
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/socket.h>

#include "core/runtime/runtime.hpp"
#include "host/workers/sample_message.hpp"
#include "kinora/embed.h"

namespace {

namespace core = kinora::core;

core::Descriptor piece(bool sealed) {
  core::Descriptor out(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::string bytes(5000, 'b');
  if (write(out.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  if (sealed) fcntl(out.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  return out;
}

// Sends arbitrary bytes in the way Channel does.
void send(int socket, const uint8_t* data, size_t size) {
  static const core::Descriptor pieces[] = {piece(true), piece(false)};
  const int numbers[] = {pieces[0].get(), pieces[1].get()};
  iovec part{const_cast<uint8_t*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof numbers)] = {};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&packet);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof numbers);
  std::memcpy(CMSG_DATA(c), numbers, sizeof numbers);
  if (sendmsg(socket, &packet, MSG_NOSIGNAL) < 0 && errno != EMSGSIZE) std::abort();
}

// Reads every byte that the sample claims to have.
uint64_t sum_of(const kinora::Sample& sample) {
  uint64_t sum = 0;
  for (const auto& field : sample.fields())
    for (const uint8_t byte : field.bytes) sum += byte;
  for (const char* name : {"frames", "t"})
    if (const auto* t = sample.tensor(name)) {
      uint64_t bytes = t->bits / 8;
      for (int32_t d = 0; d < t->ndim; ++d) bytes *= static_cast<uint64_t>(t->shape[d]);
      if (t->bits == 0 || t->bits % 8 != 0) std::abort();  // not a type that a field's array can have
      for (uint64_t i = 0; i < bytes; ++i) sum += static_cast<const uint8_t*>(t->data)[i];
    }
  return sum;
}

// The memory is handed back once if a sample was made, after its end, and never otherwise.
void unpack(const uint8_t* data, size_t size) {
  alignas(8) static const char bytes[5000] = {};
  const kinora_bytes pieces[] = {{bytes, sizeof bytes}, {bytes, sizeof bytes}};
  int returned = 0;
  kinora_sample* made = nullptr;
  const auto give_back = [](void* count) { ++*static_cast<int*>(count); };
  const int32_t status = kinora_embed_unpack({data, size}, pieces, 2, give_back, &returned, &made);
  if (returned != 0 || (status == KINORA_OK) != (made != nullptr)) std::abort();
  if (made) sum_of(kinora::Sample::adopt(made));
  if (returned != (status == KINORA_OK) || (status != KINORA_OK && *kinora_embed_error() == 0)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto host = core::or_throw(core::Runtime::start({.log_level = "error"}));
  auto [ours, theirs] = core::socket_pair();
  unpack(data, size);
  if (size == 0) return 0;
  send(theirs.get(), data, size);
  theirs = core::Descriptor();
  const core::Channel channel(std::move(ours));
  try {
    core::Message message;
    if (channel.receive(message, -1) != core::Channel::Got::message) return 0;
    const auto sample = core::take_sample(message);
    if (sum_of(sample) > size * 256 + 2 * 64 * 5000 * 256) std::abort();
    core::Message again;
    core::put_sample(again, sample);
  } catch (const kinora::Error& e) {
    if (*e.what() == 0) std::abort();
  }
  return 0;
}
