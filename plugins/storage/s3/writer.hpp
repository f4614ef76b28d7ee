// A new object. If it fits into one part, it is one PUT; otherwise a multipart upload, `parallel` parts at a time,
// so a writer holds at most (parallel + 1) parts. The object appears complete at the end: S3 has no
// partially written objects. A process that is killed leaves no object, but its uploaded parts stay on the
// server until they are removed there (a lifecycle rule, see README).
#pragma once
#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "plugins/storage/s3/client.hpp"
#include "kinora/storage.hpp"

namespace kinora::s3 {

class S3Writer final : public StorageWriter {
 public:
  S3Writer(std::shared_ptr<Client> client, ObjectPath at);
  S3Writer(const S3Writer&) = delete;
  S3Writer& operator=(const S3Writer&) = delete;
  ~S3Writer() override;  // without commit(): no object, and no parts
  void append(const void* data, uint64_t size) override;
  void commit() override;

 private:
  void send_part();
  void wait_for_first();

  std::shared_ptr<Client> client_;
  ObjectPath at_;
  uint64_t part_size_, size_ = 0;
  std::string part_;  // the part that is being filled
  Upload upload_;
  std::atomic<bool> stop_{false};
  std::deque<std::future<std::string>> sending_;
  std::vector<std::string> etags_;
};

}  // namespace kinora::s3
