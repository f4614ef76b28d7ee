#include "plugins/storage/s3/writer.hpp"

#include <algorithm>

namespace kinora::s3 {
namespace {

constexpr size_t kMostParts = 10'000;  // limit of S3
constexpr size_t kSmall = 1 << 20;

}  // namespace

S3Writer::S3Writer(std::shared_ptr<Client> client, ObjectPath at)
    : client_(std::move(client)),
      at_(std::move(at)),
      part_size_(static_cast<uint64_t>(client_->options().part_size)) {
  if (at_.key.ends_with('/'))
    throw Error(KINORA_INVALID, at_.uri() + ": cannot be written: it is the name of a folder; give that of an object");
}

S3Writer::~S3Writer() {
  stop_ = true;
  for (auto& part : sending_) part.wait();  // a part that arrives after the abort would stay
  if (upload_.id.empty()) return;
  try {
    client_->abort_upload(at_, upload_);
  } catch (const std::exception& e) {
    log(Log::warn, std::string(e.what()) + "; its parts stay on the server, remove them there (upload " +
                       upload_.id + ")");
  }
}

void S3Writer::append(const void* data, uint64_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    if (part_.size() == part_size_) send_part();
    const uint64_t n = std::min(size, part_size_ - part_.size());
    if (part_.size() + n > kSmall) part_.reserve(part_size_);  // growth by doubling could take twice the memory
    part_.append(from, n);
    from += n, size -= n, size_ += n;
  }
}

void S3Writer::wait_for_first() {
  auto first = std::move(sending_.front());
  sending_.pop_front();
  etags_.push_back(first.get());
}

void S3Writer::send_part() {
  if (upload_.id.empty()) upload_ = client_->begin_upload(at_);
  if (sending_.size() == static_cast<size_t>(client_->options().parallel)) wait_for_first();
  const size_t number = etags_.size() + sending_.size() + 1;
  if (number > kMostParts)
    throw Error(KINORA_INVALID, at_.uri() +
                                    ": cannot be written: S3 allows 10,000 parts and this is larger; raise "
                                    "part_size in [storage.s3]");
  sending_.push_back(std::async(std::launch::async, [this, number, bytes = std::exchange(part_, {})] {
    return client_->put_part(at_, upload_, static_cast<int64_t>(number), bytes, &stop_);
  }));
}

void S3Writer::commit() {
  if (upload_.id.empty()) return client_->put(at_, part_);
  send_part();
  while (!sending_.empty()) wait_for_first();
  client_->complete_upload(at_, upload_, etags_, size_);
  upload_ = {};
}

}  // namespace kinora::s3
