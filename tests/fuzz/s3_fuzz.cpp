// Any bytes as an S3 server's answer: its contents, or an error; never a crash, a loop or invented
// names.
#include <cstdlib>

#include "plugins/storage/s3/answers.hpp"
#include "plugins/storage/s3/failure.hpp"

namespace {

template <class F>
void may_throw(F&& f) {
  try {
    f();
  } catch (const kinora::Error& e) {
    if (e.code() != KINORA_ERROR_DATA || std::string_view(e.what()).empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinora::s3;
  const std::string_view xml(reinterpret_cast<const char*>(data), size);
  may_throw([&] {
    const Listing page = read_listing(xml);
    size_t bytes = page.next.size();
    for (const auto& o : page.objects) bytes += o.key.size();
    for (const auto& p : page.prefixes) bytes += p.size();
    if (bytes > size || page.objects.size() + page.prefixes.size() > size) std::abort();
  });
  may_throw([&] { read_upload_id(xml); });
  may_throw([&] { read_completed(xml); });
  const ServerError said = read_error(xml);
  if (said.code.size() + said.message.size() > size) std::abort();
  HttpAnswer answer;
  answer.status = size % 2 ? 403 : 500;
  const kinora::s3::Credentials keys{"KEYKEY", "SECRET", "TOKEN", "the environment", 0};
  const std::string text = failure("s3://b/k: cannot be read", answer, said, &keys, "r", 1).what();
  if (text.find("SECRET") != text.npos || text.size() > 4096) std::abort();
  return 0;
}
