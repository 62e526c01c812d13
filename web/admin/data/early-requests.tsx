// Sends the first requests of a staff page while its scripts are loading: on a slow line they would otherwise follow seconds later.
import { readerOfOrdersKey } from '../../lib/browser/early-requests.ts';

interface ScreenRequest {
  path: string;
  body: string;
}

// The scripts take the answers from `earlyRequests` (`web/lib/browser/early-requests.ts`). Without them, or if a request differs, they send
// their own. The session must not be about to be renewed. Written in the oldest syntax, like every inline script.
const script = (orders: ScreenRequest | undefined): string =>
  "if(!window.isBelowFloor)try{(function(){var c=JSON.parse(document.querySelector('meta[name=shop-services]').content),o=c.url||location.origin,e=window.earlyRequests={};" +
  "function send(m,p,b,t){var h={apikey:c.key};if(t)h.authorization='Bearer '+t;if(b)h['content-type']='application/json';" +
  "var a=fetch(o+p,{method:m,headers:h,body:b||undefined});a.catch(function(){});e[m+' '+o+p+' '+b]={token:t,answer:a}}" +
  "if(location.pathname=='/admin/login')send('GET','/auth/v1/settings','','');" +
  "var s=JSON.parse(localStorage.getItem('jani.staff'));if(!s||s.expires_at*1000-Date.now()<12e4)return;var t=s.access_token;" +
  "send('GET','/auth/v1/user','',t);" +
  "send('GET','/rest/v1/admin_profiles?select=is_active%2Crole%2Cname&user_id=eq.'+s.user.id+'&is_active=eq.true','',t);" +
  (orders
    ? `if(location.pathname=='/admin/orders'&&!location.search&&localStorage.getItem('${readerOfOrdersKey}')==t.slice(-32))send('POST',${JSON.stringify(orders.path)},${JSON.stringify(orders.body)},t)`
    : '') +
  '})()}catch(e){}';

/**
 * Part of what a staff page shows until its scripts have started.
 * @param orders the request for the first orders, for the pages that can show them
 */
export function EarlyRequests({ orders }: { orders?: () => ScreenRequest }) {
  return (
    <script
      suppressHydrationWarning
      dangerouslySetInnerHTML={{ __html: import.meta.env.SSR ? script(orders?.()) : '' }}
    />
  );
}
