//! Addresses, as the URL standard reads them: the parser that the HTTP client uses as well, so that what a script
//! sees of an address is what is connected to.

use rquickjs::{Array, Ctx, Function, Object};
use url::{Url, quirks};

/// Bytes of an address; what is longer is none.
const MOST: usize = 1 << 20;

fn parts<'js>(ctx: &Ctx<'js>, url: &Url) -> rquickjs::Result<Array<'js>> {
    let array = Array::new(ctx.clone())?;
    let origin = quirks::origin(url);
    let all = [
        quirks::href(url),
        &origin,
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
    ];
    for (at, part) in all.into_iter().enumerate() {
        array.set(at, part)?;
    }
    Ok(array)
}

fn parse(text: &str, base: Option<&str>) -> Option<Url> {
    if text.len() > MOST {
        return None;
    }
    match base {
        Some(base) => Url::parse(base).ok()?.join(text).ok(),
        None => Url::parse(text).ok(),
    }
}

fn set(href: &str, part: &str, value: &str) -> Option<Url> {
    if value.len() > MOST {
        return None;
    }
    let mut url = Url::parse(href).ok()?;
    // A part that is no such part stays as it was: that is what the standard says of each of them.
    let _ = match part {
        "href" => return Url::parse(value).ok(),
        "protocol" => quirks::set_protocol(&mut url, value),
        "username" => quirks::set_username(&mut url, value),
        "password" => quirks::set_password(&mut url, value),
        "host" => quirks::set_host(&mut url, value),
        "hostname" => quirks::set_hostname(&mut url, value),
        "port" => quirks::set_port(&mut url, value),
        "pathname" => {
            quirks::set_pathname(&mut url, value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, value);
            Ok(())
        }
        "hash" => {
            quirks::set_hash(&mut url, value);
            Ok(())
        }
        _ => Err(()),
    };
    Some(url)
}

/// Puts `urlParse`, `urlSet` and `domain` on `host`.
pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> rquickjs::Result<()> {
    let parser = |ctx: Ctx<'js>, text: String, base: Option<String>| {
        parse(&text, base.as_deref()).map(|url| parts(&ctx, &url)).transpose()
    };
    host.set("urlParse", Function::new(ctx.clone(), parser)?)?;
    let setter = |ctx: Ctx<'js>, href: String, part: String, value: String| {
        set(&href, &part, &value).map(|url| parts(&ctx, &url)).transpose()
    };
    host.set("urlSet", Function::new(ctx.clone(), setter)?)?;
    let domain = |name: String, unicode: bool| {
        if unicode { quirks::domain_to_unicode(&name) } else { quirks::domain_to_ascii(&name) }
    };
    host.set("domain", Function::new(ctx.clone(), domain)?)
}
