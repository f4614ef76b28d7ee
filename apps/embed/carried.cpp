// The part of the C API for embedding that takes samples out of this process: to another one, or to files.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "apps/embed/embed.hpp"
#include "core/base/facts.hpp"
#include "core/sample/sample.hpp"
#include "host/workers/sample_message.hpp"
#include "plugins/jobs/curation/clip_files.hpp"

namespace kinora::core::embed {
namespace {

// The caller's memory, which all its pieces keep.
struct Lent {
  void (*release)(void* user) = nullptr;  // null until the sample is the caller's
  void* user = nullptr;
  Lent() = default;
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() {
    if (release) release(user);
  }
};

struct LentPiece final : SamplePiece {
  LentPiece(const void* data, std::shared_ptr<Lent> lent)
      : data_(static_cast<uint8_t*>(const_cast<void*>(data))), lent_(std::move(lent)) {}
  uint8_t* data() const override { return data_; }

 private:
  uint8_t* data_;
  std::shared_ptr<Lent> lent_;
};

// The head is a packet of host/workers/channel.hpp without descriptors.
void pack(const Sample& sample, const kinora_sink& head, void (*piece)(void*, kinora_bytes, kinora_sample*)) {
  const Sample keeper = sample.clone(sample.key());  // with the fields of now, whatever becomes of `sample`
  Message message;
  std::vector<kinora_bytes> pieces;
  put_sample(message, keeper, [&](const LargeData& what) {
    pieces.push_back({what.data, what.size});
    return pieces.size() - 1;
  });
  const auto packed = json::to_msgpack(message.head);
  const auto size = static_cast<uint32_t>(packed.size());
  head.write(head.self, &size, sizeof size);
  head.write(head.self, packed.data(), packed.size());
  head.write(head.self, message.bytes.data(), message.bytes.size());
  for (const auto& data : pieces) piece(head.self, data, Sample(keeper).release());
}

void check_aligned(const Sample& sample) {
  for (const auto& name : tensor_names(sample.get())) {
    const kinora_dl_tensor& tensor = *sample.tensor(name.c_str());
    if (reinterpret_cast<uintptr_t>(tensor.data) % (tensor.bits / 8) != 0)
      throw Error(
          KINORA_ERROR_INVALID,
          fmt::format(
              "tensor '{}': its piece does not begin at a multiple of {} bytes; copy it to memory that "
              "does",
              name, tensor.bits / 8));
  }
}

Sample unpack(std::string_view head, std::span<const kinora_bytes> pieces,
              const std::shared_ptr<Lent>& lent) {
  Message message;
  message.parse(head);
  size_t taken = 0;
  const auto take = [&](size_t number, size_t size) {
    if (number != taken || number >= pieces.size() || size != pieces[number].size)
      throw Error(KINORA_ERROR_DATA,
                  fmt::format("the head asks for piece {} of {} bytes where piece {} of {} pieces is next{}",
                              number, size, taken, pieces.size(),
                              taken < pieces.size() ? fmt::format(", of {} bytes", pieces[taken].size) : ""));
    return std::make_shared<LentPiece>(pieces[taken++].data, lent);
  };
  Sample out = take_sample(message, take);
  if (taken != pieces.size())
    throw Error(KINORA_ERROR_DATA, fmt::format("the head is of {} pieces, not of {}", taken, pieces.size()));
  check_aligned(out);
  return out;
}

json store(const std::filesystem::path& folder, const Sample& sample) {
  if (const std::string why = problem_of_key(sample.key()); !why.empty())
    throw Error(KINORA_ERROR_INVALID, why);
  for (const auto& [name, bytes] : sample.fields())
    if (valid_utf8(name) != name)
      throw Error(KINORA_ERROR_INVALID,
                  fmt::format("sample '{}' has a field '{}', which is not UTF-8: the list of files "
                              "could not name it",
                              sample.key(), valid_utf8(name)));
  std::error_code error;
  std::filesystem::create_directories((folder / sample.key()).parent_path(), error);
  if (error)
    throw Error(KINORA_ERROR_IO, fmt::format("{}: the folder of sample '{}' cannot be made ({})",
                                             folder.string(), sample.key(), error.message()));
  return store_sample(folder, sample);
}

Sample borrow(const kinora_sample* sample) { return Sample::borrow(const_cast<kinora_sample*>(sample)); }

}  // namespace

extern "C" {

int32_t kinora_embed_pack(const kinora_sample* sample, const kinora_sink* head,
                          void (*piece)(void* self, kinora_bytes data, kinora_sample* keeper)) {
  return guard([&] { pack(borrow(sample), *head, piece); });
}

int32_t kinora_embed_unpack(kinora_bytes head, const kinora_bytes* pieces, uint64_t n,
                            void (*release)(void* user), void* user, kinora_sample** out) {
  return guard([&] {
    const auto lent = std::make_shared<Lent>();
    const std::string_view text(head.data ? static_cast<const char*>(head.data) : "",
                                head.data ? head.size : 0);
    *out = unpack(text, {pieces, n}, lent).release();
    lent->user = user;
    lent->release = release;
  });
}

int32_t kinora_embed_store(const char* folder, const kinora_sample* sample, const kinora_sink* to) {
  return guard([&] { write(store(folder, borrow(sample)), *to); });
}

}  // extern "C"

}  // namespace kinora::core::embed
