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
  // A tag is the server's ETag. Some servers ignore the conditions.
  std::optional<std::string> put_if(std::string_view path, std::string_view bytes,
                                    std::string_view tag) override;
  SmallObject read_small(std::string_view path) override;
  bool remove_if(std::string_view path, std::string_view tag) override;
  int32_t list_from(std::string_view path, std::string_view after, uint64_t most, const Each& each) override;
  void interrupt() override { ranged::interrupt(); }
  const Client& client() const { return *client_; }

 private:
  std::shared_ptr<Client> client_;
};

}  // namespace kinora::s3
