/* headroom for C++17: handles that destroy themselves, arrays made of pointers and shapes, failures as
 * exceptions. Header only; all of it stands on headroom.h, which says what each function does.
 *
 *     headroom::device cpu("cpu");
 *     headroom::kernel softmax = headroom::kernel::from_file(cpu, "softmax.hr");
 *     softmax.execute({headroom::array(x, {rows, columns}), headroom::array(y, {rows, columns})});
 *
 * Handles are moved, not copied; c() of one is what the functions of headroom.h take. A kernel must not
 * outlive its device.
 */
#ifndef HEADROOM_HPP
#define HEADROOM_HPP

#include "headroom.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace headroom {

/* A status that is not HR_OK, and the sentence that explains it. */
class error : public std::runtime_error {
  public:
    explicit error(hr_status status) : std::runtime_error(hr_last_error()), status_(status) {}
    hr_status status() const noexcept { return status_; }

  private:
    hr_status status_;
};

/* Throws error where `status` is not HR_OK. */
inline void need(hr_status status) {
    if (status != HR_OK) throw error(status);
}

/* The dtype of a C++ type. What C++ has no type for is given by its dtype: array(HR_BF16, data, shape). */
template <typename T> constexpr hr_dtype dtype_of() {
    using type = std::remove_cv_t<T>;
    static_assert(std::is_arithmetic_v<type>, "an array's elements are numbers: give the dtype of others");
    if constexpr (std::is_same_v<type, bool>) return HR_BOOL;
    if constexpr (std::is_same_v<type, double>) return HR_F64;
    if constexpr (std::is_same_v<type, float>) return HR_F32;
    if constexpr (std::is_integral_v<type> && std::is_signed_v<type>)
        return sizeof(type) == 8 ? HR_I64 : sizeof(type) == 4 ? HR_I32 : sizeof(type) == 2 ? HR_I16 : HR_I8;
    static_assert(!std::is_integral_v<type> || std::is_signed_v<type> || sizeof(type) == 1,
                  "of unsigned whole numbers the language has u8 only");
    static_assert(!std::is_same_v<type, long double>, "the language has no long double");
    return HR_U8;
}

/* Memory with a shape, not owned: what a tensor is bound to, or a scalar's value. Arrays are as many as a
 * kernel has arguments, and keep their shapes themselves. */
class array {
  public:
    static constexpr int most_axes = 8;

    template <typename T>
    array(T *data, std::initializer_list<std::int64_t> shape,
          std::initializer_list<std::int64_t> strides = {})
        : array(dtype_of<T>(), data, shape, strides) {}

    template <typename Shape = std::initializer_list<std::int64_t>, typename Strides = Shape>
    array(hr_dtype dtype, const void *data, const Shape &shape, const Strides &strides = {})
        : dtype_(dtype), data_(const_cast<void *>(data)), rank_(static_cast<int>(shape.size())),
          strided_(strides.size() != 0) {
        if (shape.size() > most_axes || (strided_ && strides.size() != shape.size()))
            throw std::invalid_argument("an array has at most 8 axes, and a stride for each or none");
        fill(shape, shape_);
        fill(strides, strides_);
    }

    /* The value of a scalar. */
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    array(T value) : dtype_(dtype_of<T>()), scalar_(true) {
        static_assert(sizeof value <= sizeof value_);
        std::memcpy(value_, &value, sizeof value);
    }

    /* A result that is not wanted, or a scalar that has its default. */
    array(std::nullptr_t) {}

    hr_array c() const noexcept {
        hr_array out{};
        out.size = sizeof out;
        out.data = scalar_ ? const_cast<unsigned char *>(value_) : data_;
        out.dtype = dtype_;
        out.rank = rank_;
        out.shape = rank_ ? shape_.data() : nullptr;
        out.strides = strided_ ? strides_.data() : nullptr;
        return out;
    }

  private:
    template <typename Numbers>
    static void fill(const Numbers &from, std::array<std::int64_t, most_axes> &to) {
        std::size_t i = 0;
        for (auto number : from)
            to[i++] = static_cast<std::int64_t>(number);
    }

    hr_dtype dtype_ = HR_F32;
    void *data_ = nullptr;
    int rank_ = 0;
    bool strided_ = false, scalar_ = false;
    std::array<std::int64_t, most_axes> shape_{}, strides_{};
    alignas(8) unsigned char value_[8] = {};
};

namespace detail {
struct destroy {
    void operator()(hr_device *device) const noexcept { hr_device_destroy(device); }
    void operator()(hr_kernel *kernel) const noexcept { hr_kernel_destroy(kernel); }
    void operator()(hr_run_result *result) const noexcept { hr_run_result_destroy(result); }
    void operator()(hr_npy *npy) const noexcept { hr_npy_destroy(npy); }
};
} // namespace detail

class device {
  public:
    /* The best there is, or one by its name. */
    device() : device(nullptr) {}
    explicit device(const char *name) {
        hr_device *made = nullptr;
        need(hr_device_open(name, &made));
        handle_.reset(made);
    }

    hr_device *c() const noexcept { return handle_.get(); }
    std::string kind() const { return hr_device_kind(c()); }
    std::string name() const { return hr_device_name(c()); }
    void synchronise() const { need(hr_device_synchronise(c())); }
    hr_roof roof() const {
        hr_roof out;
        need(hr_device_roof(c(), false, nullptr, nullptr, &out));
        return out;
    }

  private:
    std::unique_ptr<hr_device, detail::destroy> handle_;
};

/* Memory of a device, released with this. */
class memory {
  public:
    memory(const device &on, std::size_t size) : device_(on.c()), size_(size) {
        need(hr_device_allocate(device_, size, &data_));
    }
    memory(memory &&other) noexcept
        : device_(other.device_), data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
    memory &operator=(memory &&other) noexcept {
        std::swap(device_, other.device_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;
    ~memory() {
        if (data_) hr_device_release(device_, data_, size_);
    }

    template <typename T = void> T *data() const noexcept { return static_cast<T *>(data_); }
    std::size_t size() const noexcept { return size_; }
    void upload(const void *from) const { need(hr_device_upload(device_, data_, from, size_)); }
    void download(void *to) const { need(hr_device_download(device_, to, data_, size_)); }

  private:
    hr_device *device_;
    void *data_ = nullptr;
    std::size_t size_;
};

using run_result = std::unique_ptr<hr_run_result, detail::destroy>;

/* What a kernel is called with. */
struct argument {
    std::string name;
    hr_argument_role role;
    hr_dtype dtype;
    std::vector<std::vector<hr_shape_step>> shape; /* an axis each: hr_argument_shape */
};

class kernel {
  public:
    static kernel from_text(const device &on, const std::string &text, const char *name = nullptr) {
        hr_kernel *made = nullptr;
        need(hr_kernel_load(on.c(), nullptr, text.data(), text.size(), name, &made));
        return kernel(made);
    }
    static kernel from_file(const device &on, const std::string &path, const char *name = nullptr) {
        hr_kernel *made = nullptr;
        need(hr_kernel_load_file(on.c(), path.c_str(), name, &made));
        return kernel(made);
    }

    hr_kernel *c() const noexcept { return handle_.get(); }
    std::string name() const { return hr_kernel_name(c()); }

    /* Arrays by position: hr_kernel_execute. From many threads at once, too. */
    void execute(std::initializer_list<array> arrays, void *stream = nullptr) const {
        execute(arrays.begin(), arrays.size(), stream);
    }
    void execute(const std::vector<array> &arrays, void *stream = nullptr) const {
        execute(arrays.data(), arrays.size(), stream);
    }

    /* By name. The memory must live as long as it is bound. */
    kernel &bind(const char *name, const array &given) {
        const hr_array described = given.c();
        need(hr_kernel_bind(c(), name, &described));
        return *this;
    }
    kernel &bind_scalar(const char *name, double value) {
        need(hr_kernel_bind_scalar(c(), name, value));
        return *this;
    }
    kernel &bind_extent(const char *name, std::int64_t value) {
        need(hr_kernel_bind_extent(c(), name, value));
        return *this;
    }
    kernel &bind_dtype(const char *name, hr_dtype dtype) {
        need(hr_kernel_bind_dtype(c(), name, dtype));
        return *this;
    }
    void prepare(hr_tune tune = HR_TUNE_DEFAULT, int threads = 0) {
        hr_prepare_options options{};
        options.size = sizeof options;
        options.tune = tune;
        options.threads = threads;
        need(hr_kernel_prepare(c(), &options));
    }
    void launch() { need(hr_kernel_launch(c())); }
    hr_floor floor() {
        hr_floor out;
        need(hr_kernel_floor(c(), &out));
        return out;
    }
    run_result run() {
        hr_run_result *out = nullptr;
        need(hr_kernel_run(c(), nullptr, &out));
        return run_result(out);
    }

    std::vector<argument> arguments() const {
        std::vector<argument> all;
        for (int i = 0; i < hr_kernel_argument_count(c()); i++) {
            hr_argument one;
            need(hr_kernel_argument(c(), i, &one));
            argument made{one.name, one.role, one.dtype, {}};
            for (int axis = 0; axis < one.rank; axis++) {
                int count = 0;
                need(hr_argument_shape(c(), i, axis, nullptr, 0, &count));
                std::vector<hr_shape_step> steps(static_cast<std::size_t>(count));
                need(hr_argument_shape(c(), i, axis, steps.data(), count, &count));
                made.shape.push_back(std::move(steps));
            }
            all.push_back(std::move(made));
        }
        return all;
    }

  private:
    explicit kernel(hr_kernel *made) : handle_(made) {}

    void execute(const array *arrays, std::size_t count, void *stream) const {
        constexpr std::size_t few = 16;
        std::array<hr_array, few> here;
        std::vector<hr_array> more(count > few ? count : 0);
        hr_array *all = count > few ? more.data() : here.data();
        for (std::size_t i = 0; i < count; i++)
            all[i] = arrays[i].c();
        need(hr_kernel_execute(c(), all, static_cast<int>(count), stream));
    }

    std::unique_ptr<hr_kernel, detail::destroy> handle_;
};

} // namespace headroom

#endif
