// During its lifetime libarchive treats names of members on this thread as UTF-8, whatever the process's locale, so
// the same names give the same bytes everywhere.
#pragma once
#include <locale.h>

namespace kinora::shard {

class Utf8Names {
 public:
  Utf8Names() : locale_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (locale_) before_ = ::uselocale(locale_);
  }
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;
  ~Utf8Names() {
    if (!locale_) return;
    ::uselocale(before_);
    ::freelocale(locale_);
  }

 private:
  locale_t locale_, before_ = nullptr;
};

}  // namespace kinora::shard
