// storage/s3: objects of Amazon S3 and compatible servers (MinIO, Ceph, R2, rclone serve s3).
#pragma once
#include "kinora/storage.hpp"
#include "plugins/storage/s3/client.hpp"

namespace kinora::s3 {

class S3Storage final : public Storage {
 public:
  using Options = s3::Options;
  static void describe(Describe<Options>& d);
  explicit S3Storage(const Options& options) : client_(std::make_shared<Client>(options)) {}
  std::unique_ptr<StorageReader> open(std::string_view path) override;
  std::unique_ptr<StorageWriter> begin(std::string_view path) override;
  // A folder is the part of a key before a slash: "a/" of "a/b". It exists as long as a key begins with it.
  int32_t list(std::string_view path, const Each& each) override;
  void remove(std::string_view path) override;
  void interrupt() override { ranged::interrupt(); }
  const Client& client() const { return *client_; }

 private:
  std::shared_ptr<Client> client_;
};

}  // namespace kinora::s3
