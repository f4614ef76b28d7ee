#include "plugins/jobs/curate/lease_store.hpp"

#include "core/base/status.hpp"
#include "core/plugin/host.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

kinora_sink into(std::string& text) {
  return {&text, [](void* self, const void* data, uint64_t size) {
            static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
          }};
}

class FolderOfLeases final : public LeaseStore {
 public:
  FolderOfLeases(std::shared_ptr<Store> store, std::string folder)
      : store_(std::move(store)), folder_(std::move(folder)) {
    const kinora_storage* table = store_->table;
    const bool has_all =
        KINORA_HAS(table, remove_if) && table->put_if && table->read_small && table->remove_if;
    if (!has_all)
      throw Error(
          KINORA_ERROR_UNSUPPORTED,
          folder_ +
              ": this storage has no conditional writes, by which processes share work; use a folder or "
              "an S3 bucket, or set lease = 0");
  }

  std::optional<Object> read(const std::string& name) override {
    Object out;
    const kinora_sink bytes = into(out.bytes), tag = into(out.tag);
    const std::string path = path_of(name);
    const int32_t status = store_->table->read_small(store_->self, str(path), &bytes, &tag);
    if (status == KINORA_ERROR_NOT_FOUND) return std::nullopt;
    or_throw(from_abi(status, path));
    return out;
  }

  std::optional<std::string> put(const std::string& name, const std::string& bytes,
                                 const std::string& tag) override {
    std::string made;
    const kinora_sink to = into(made);
    const std::string path = path_of(name);
    const kinora_bytes all{bytes.data(), bytes.size()};
    const int32_t status = store_->table->put_if(store_->self, str(path), all, str(tag), &to);
    if (status == KINORA_SIGNAL_CONFLICT) return std::nullopt;
    or_throw(from_abi(status, path));
    return made;
  }

  bool remove(const std::string& name, const std::string& tag) override {
    const std::string path = path_of(name);
    const int32_t status = store_->table->remove_if(store_->self, str(path), str(tag));
    if (status == KINORA_SIGNAL_CONFLICT) return false;
    or_throw(from_abi(status, path));
    return true;
  }

 private:
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }
  const std::shared_ptr<Store> store_;
  const std::string folder_;
};

}  // namespace

std::unique_ptr<LeaseStore> lease_store(std::shared_ptr<Store> store, std::string folder) {
  return std::make_unique<FolderOfLeases>(std::move(store), std::move(folder));
}

}  // namespace kinora::core
