/* cadenza.hpp - cadenza.h for C++17: objects that free what they own, and exceptions for statuses. This file is all of it.
 *
 *     cadenza::runtime rt;
 *     cadenza::model model = rt.open("models/pocket-dictionary");
 *     cadenza::result answer = rt.generate(cadenza::request(model).prompt("river (noun):"));
 *     std::cout << answer.text(0);
 *
 * Models, pipelines, results and runs keep their runtime open, so objects may end in any order. They move and do not copy; one that
 * was moved from may only be assigned to or destroyed. What a function returns as a view belongs to the object it was asked of.
 * What is not here is cadenza.h's: get() gives the pointer. Threads: as cadenza.h says; one object is used from one thread at a
 * time, a runtime and a model from any number. */
#ifndef CADENZA_CADENZA_HPP
#define CADENZA_CADENZA_HPP

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cadenza.h"

namespace cadenza {

/* A call failed: what() is the library's sentence. */
class error : public std::runtime_error {
public:
    explicit error(const cdz_error &e) : std::runtime_error(e.text), code_(e.code) {}
    cdz_status code() const noexcept { return code_; }

private:
    cdz_status code_;
};

/* A struct of cadenza.h that begins with its size: auto o = cadenza::sized<cdz_options>(); */
template <class T> T sized()
{
    T made{};
    made.size = sizeof(T);
    return made;
}

/* Memory of another object: valid as long as that is. */
template <class T> class view {
public:
    view(const T *at, std::size_t n) : at_(at), n_(n) {}
    const T *data() const noexcept { return at_; }
    const T *begin() const noexcept { return at_; }
    const T *end() const noexcept { return at_ + n_; }
    std::size_t size() const noexcept { return n_; }
    bool empty() const noexcept { return n_ == 0; }
    const T &operator[](std::size_t i) const noexcept { return at_[i]; }

private:
    const T *at_;
    std::size_t n_;
};

namespace detail {

struct freed {
    void operator()(void *at) const noexcept { cdz_free(at); }
    void operator()(cdz_result *at) const noexcept { cdz_result_free(at); }
    void operator()(cdz_model *at) const noexcept { cdz_model_close(at); }
    void operator()(cdz_pipeline *at) const noexcept { cdz_pipeline_free(at); }
    void operator()(cdz_generator *at) const noexcept { cdz_generator_free(at); }
};
template <class T> using owned = std::unique_ptr<T, freed>;
using runtime_ref = std::shared_ptr<cdz_runtime>;

/* f(&err) -> status */
template <class F> void call(F &&f)
{
    cdz_error err{};
    const cdz_status status = f(&err);
    if (status == CDZ_OK) return;
    if (err.code == CDZ_OK) err.code = status;
    throw error(err);
}

/* f(&text, &err) -> status, or an allocated string */
template <class F> std::string text(F &&f)
{
    char *out = nullptr;
    call([&](cdz_error *err) { return f(&out, err); });
    const owned<void> kept(out);
    return out ? std::string(out) : std::string();
}

inline std::string text_of(char *allocated)
{
    const owned<void> kept(allocated);
    return allocated ? std::string(allocated) : std::string();
}

inline std::string_view sight(const char *at) { return at ? std::string_view(at) : std::string_view(); }

} // namespace detail

/* What a request gave. */
class result {
public:
    result(detail::runtime_ref rt, cdz_result *at) : rt_(std::move(rt)), at_(at) {}
    cdz_result *get() const noexcept { return at_.get(); }
    std::uint32_t rows() const noexcept { return cdz_result_rows(get()); }
    /* New text, without special tokens. */
    std::string_view text(std::uint32_t row) const { return detail::sight(cdz_result_text(get(), row)); }
    std::string_view finish_reason(std::uint32_t row) const
    {
        return detail::sight(cdz_result_finish_reason(get(), row));
    }
    view<std::int32_t> ids(std::uint32_t row) const { return some(cdz_result_ids, row); } /* new ones */
    view<std::int32_t> sequence(std::uint32_t row) const { return some(cdz_result_sequence, row); }
    std::string_view json() const { return detail::sight(cdz_result_json(get())); }
    void save(const std::string &path) const
    {
        detail::call([&](cdz_error *err) { return cdz_result_save(get(), path.c_str(), err); });
    }
    /* Scores, logits and the like, each by its name; f(const cdz_result_tensor &). The data stay as long as the result. */
    template <class F> void each_tensor(F &&f) const
    {
        cdz_result_tensor *list = nullptr;
        std::size_t n = 0;
        detail::call([&](cdz_error *err) { return cdz_result_tensors(get(), &list, &n, err); });
        const detail::owned<void> kept(list);
        for (std::size_t i = 0; i < n; i++) f(const_cast<const cdz_result_tensor &>(list[i]));
    }

private:
    template <class F> view<std::int32_t> some(F of, std::uint32_t row) const
    {
        std::uint32_t n = 0;
        const std::int32_t *at = of(get(), row, &n);
        return {at, n};
    }
    detail::runtime_ref rt_;
    detail::owned<cdz_result> at_;
};

class model {
public:
    model(detail::runtime_ref rt, cdz_model *at) : rt_(std::move(rt)), at_(at) {}
    cdz_model *get() const noexcept { return at_.get(); }
    std::uint32_t vocab_size() const noexcept { return cdz_model_vocab_size(get()); }
    std::uint32_t context() const noexcept { return cdz_model_context(get()); }
    std::uint32_t hidden_size() const noexcept { return cdz_model_hidden_size(get()); }
    bool has_encoder() const noexcept { return cdz_model_has_encoder(get()); }
    std::string info_json() const { return detail::text_of(cdz_model_info_json(get())); }
    std::vector<std::int32_t> tokenize(std::string_view text, bool special = true) const
    {
        std::int32_t *ids = nullptr;
        std::size_t n = 0;
        detail::call([&](cdz_error *err) {
            return cdz_tokenize(get(), text.data(), text.size(), special, &ids, &n, err);
        });
        const detail::owned<void> kept(ids);
        return std::vector<std::int32_t>(ids, ids + n);
    }
    std::string detokenize(const std::vector<std::int32_t> &ids, bool skip_special = true) const
    {
        return detail::text([&](char **out, cdz_error *err) {
            return cdz_detokenize(get(), ids.data(), ids.size(), skip_special, out, err);
        });
    }
    /* The log-probability of each id after those before it; the first is nan. */
    std::vector<float> score(const std::vector<std::int32_t> &ids) const
    {
        std::vector<float> out(ids.size());
        detail::call([&](cdz_error *err) {
            return cdz_score(rt_.get(), get(), nullptr, 0, ids.data(), ids.size(), out.data(), err);
        });
        return out;
    }

private:
    detail::runtime_ref rt_;
    detail::owned<cdz_model> at_;
};

/* How a request decodes: an ini file, and what is set besides. */
class pipeline {
public:
    pipeline(detail::runtime_ref rt, cdz_pipeline *at) : rt_(std::move(rt)), at_(at) {}
    cdz_pipeline *get() const noexcept { return at_.get(); }
    pipeline &set(const std::string &name, const std::string &value)
    {
        detail::call([&](cdz_error *err) {
            return cdz_pipeline_set(get(), name.c_str(), value.c_str(), err);
        });
        return *this;
    }
    std::string explain(const model *of = nullptr) const
    {
        return detail::text([&](char **out, cdz_error *err) {
            return cdz_pipeline_explain(get(), of ? of->get() : nullptr, out, err);
        });
    }
    void reload(const model *of = nullptr)
    {
        detail::call([&](cdz_error *err) {
            return cdz_pipeline_reload(get(), of ? of->get() : nullptr, err);
        });
    }

private:
    detail::runtime_ref rt_;
    detail::owned<cdz_pipeline> at_;
};

/* New tokens of a row, as they come. [engine thread] What it throws ends the request and comes out of run::wait. */
struct piece {
    std::uint32_t row;
    std::string_view text;
    view<std::int32_t> ids;
};
using listener = std::function<void(const piece &)>;

/* A request under construction; it copies what it is told. The models and the pipeline must live until it was submitted. */
class request {
public:
    explicit request(const model &of) : model_(&of) {}
    request &prompt(std::string text) { return prompt_ = std::move(text), *this; }
    request &ids(std::vector<std::int32_t> prompt) { return ids_ = std::move(prompt), *this; }
    request &json(std::string document) { return json_ = std::move(document), *this; }
    request &with(const pipeline &p) { return pipeline_ = &p, *this; }
    request &assistant(const model &draft) { return assistant_ = &draft, *this; }
    request &timeout(double seconds) { return timeout_s_ = seconds, *this; }
    request &on_piece(listener f) { return listener_ = std::move(f), *this; }

private:
    friend class runtime;
    cdz_request raw() const
    {
        cdz_request r = sized<cdz_request>();
        r.model = model_->get();
        r.pipeline = pipeline_ ? pipeline_->get() : nullptr;
        r.assistant = assistant_ ? assistant_->get() : nullptr;
        r.prompt = prompt_ ? prompt_->c_str() : nullptr;
        r.json = json_ ? json_->c_str() : nullptr;
        r.ids = ids_.empty() ? nullptr : ids_.data();
        r.n_ids = static_cast<std::uint32_t>(ids_.size());
        r.timeout_s = timeout_s_;
        return r;
    }
    const model *model_;
    const pipeline *pipeline_ = nullptr;
    const model *assistant_ = nullptr;
    std::optional<std::string> prompt_, json_;
    std::vector<std::int32_t> ids_;
    double timeout_s_ = 0;
    listener listener_;
};

/* A request that runs. Destroyed before its result was taken, it is cancelled, and waited for. */
class run {
public:
    run(run &&other) noexcept
        : rt_(std::move(other.rt_)), hears_(std::move(other.hears_)), id_(std::exchange(other.id_, 0))
    {
    }
    run &operator=(run &&other) noexcept
    {
        abandon();
        rt_ = std::move(other.rt_);
        hears_ = std::move(other.hears_);
        id_ = std::exchange(other.id_, 0);
        return *this;
    }
    ~run() { abandon(); }
    std::uint64_t id() const noexcept { return id_; }
    void cancel() noexcept { (void)cdz_cancel(rt_.get(), id_, nullptr); }
    /* In no pass until it is resumed; nothing, once it has ended. */
    void pause() noexcept { (void)cdz_pause(rt_.get(), id_, nullptr); }
    void resume() noexcept { (void)cdz_resume(rt_.get(), id_, nullptr); }
    /* The result, once. Throws what the listener threw, else the request's failure. */
    result wait()
    {
        std::optional<result> made = wait_for(-1);
        if (made) return std::move(*made);
        throw std::logic_error("cadenza::run: the result was taken already");
    }
    /* As wait; empty: it has not ended after so many seconds. */
    std::optional<result> wait_for(double seconds)
    {
        if (!id_) return std::nullopt;
        cdz_result *out = nullptr;
        cdz_error err{};
        const cdz_status status = cdz_get_result(rt_.get(), id_, seconds, nullptr, &out, &err);
        if (status == CDZ_E_STATE && !out) return std::nullopt;
        result made(rt_, out);
        id_ = 0;
        if (hears_ && hears_->thrown) std::rethrow_exception(hears_->thrown);
        if (status != CDZ_OK) throw error(err);
        return made;
    }

private:
    friend class runtime;
    struct hearing {
        listener f;
        detail::runtime_ref rt;
        std::exception_ptr thrown;
    };
    explicit run(detail::runtime_ref rt) : rt_(std::move(rt)) {}
    static void hear(void *user, const cdz_event *event)
    {
        auto *h = static_cast<hearing *>(user);
        if (event->kind != CDZ_EVENT_TOKENS || h->thrown) return;
        try {
            h->f({event->row, detail::sight(event->text), {event->ids, event->n_ids}});
        } catch (...) {
            h->thrown = std::current_exception();
            (void)cdz_cancel(h->rt.get(), event->request_id, nullptr);
        }
    }
    void abandon() noexcept
    {
        if (!id_) return;
        cdz_result *out = nullptr;
        cancel();
        (void)!cdz_wait(rt_.get(), id_, &out, nullptr);
        cdz_result_free(out);
        id_ = 0;
    }
    detail::runtime_ref rt_;
    std::unique_ptr<hearing> hears_;
    std::uint64_t id_ = 0;
};

/* Plugins, the engine's thread, memory for KV caches. Copies are the same runtime. */
class runtime {
public:
    runtime() : runtime(sized<cdz_options>()) {}
    explicit runtime(const cdz_options &options)
    {
        cdz_runtime *out = nullptr;
        detail::call([&](cdz_error *err) { return cdz_open(&options, &out, err); });
        rt_ = detail::runtime_ref(out, cdz_close);
    }
    cdz_runtime *get() const noexcept { return rt_.get(); }
    model open(const std::string &folder, const cdz_model_options &options = sized<cdz_model_options>())
    {
        cdz_model *out = nullptr;
        detail::call([&](cdz_error *err) {
            return cdz_model_open(get(), folder.c_str(), &options, &out, err);
        });
        return model(rt_, out);
    }
    pipeline load(const std::string &file)
    {
        return made([&](cdz_pipeline **out, cdz_error *err) {
            return cdz_pipeline_load(get(), file.c_str(), out, err);
        });
    }
    /* The same from text. */
    pipeline parse(std::string_view ini, const std::string &name = "pipeline")
    {
        return made([&](cdz_pipeline **out, cdz_error *err) {
            return cdz_pipeline_parse(get(), ini.data(), ini.size(), name.c_str(), out, err);
        });
    }
    run submit(const request &r)
    {
        run going(rt_);
        cdz_request raw = r.raw();
        if (r.listener_) {
            going.hears_.reset(new run::hearing{r.listener_, rt_, nullptr});
            raw.on_event = run::hear;
            raw.user = going.hears_.get();
        }
        detail::call([&](cdz_error *err) { return cdz_submit(get(), &raw, &going.id_, err); });
        return going;
    }
    result generate(const request &r) { return submit(r).wait(); }
    cdz_stats stats() const
    {
        cdz_stats made = sized<cdz_stats>();
        cdz_get_stats(get(), &made);
        return made;
    }

private:
    template <class F> pipeline made(F &&f)
    {
        cdz_pipeline *out = nullptr;
        detail::call([&](cdz_error *err) { return f(&out, err); });
        return pipeline(rt_, out);
    }
    detail::runtime_ref rt_;
};

/* torch's random stream on a CPU, for sample(). */
class generator {
public:
    explicit generator(std::uint64_t seed)
    {
        cdz_generator *out = nullptr;
        detail::call([&](cdz_error *err) { return cdz_generator_open(seed, &out, err); });
        at_.reset(out);
    }
    cdz_generator *get() const noexcept { return at_.get(); }
    /* A token of these logits, as cdz_sample says. */
    std::int32_t sample(const std::vector<float> &logits, double temperature = 1, std::size_t top_k = 0,
                        double top_p = 1)
    {
        std::int32_t token = 0;
        detail::call([&](cdz_error *err) {
            return cdz_sample(get(), logits.data(), logits.size(), temperature, top_k, top_p, &token, err);
        });
        return token;
    }

private:
    detail::owned<cdz_generator> at_;
};

} // namespace cadenza

#endif
